// Looks at cells of notebooks: `node notebook.mjs '{"browser": …, "pages": {name: …}}'` prints, for each of these HTML files,
// how the elements of what jaxobs shows look there, as JSON. Nothing is fetched from a network.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.JAXOBS_PAGE_BROWSER ?? import.meta.url);
const { chromium } = require("playwright-core");

const wanted = JSON.parse(process.argv[2]);
// What a foreign style sheet may change, and a reader would see.
const LOOKS = ["color", "background-color", "font-size", "font-weight", "text-align", "padding", "margin", "border", "display",
  "list-style-type", "white-space", "vertical-align", "line-height", "fill", "float", "font-family"];

const browser = await chromium.launch({ executablePath: wanted.browser, args: ["--no-sandbox", "--disable-gpu"] });
const found = {};
for (const [name, { path, scheme, picture }] of Object.entries(wanted.pages)) {
  const context = await browser.newContext({ viewport: { width: 1000, height: 900 }, colorScheme: scheme });
  const page = await context.newPage();
  await page.route(/^https?:/, (route) => route.abort());
  await page.goto(pathToFileURL(path).href, { waitUntil: "domcontentloaded" });
  found[name] = await page.evaluate((looks) => [...document.querySelectorAll(".in-notebook *:not(style)")].map((one) => {
    const style = getComputedStyle(one);
    const values = looks.map((look) => [look, style.getPropertyValue(look).replace(/^start$/, "left")]);
    const { width, height } = one.getBoundingClientRect();
    values.push(["size", `${Math.round(width)} x ${Math.round(height)}`]);
    return [`${one.tagName.toLowerCase()}.${one.getAttribute("class")}`, Object.fromEntries(values)];
  }), LOOKS);
  if (picture) await page.locator(".in-notebook").screenshot({ path: picture });
  await context.close();
}
await browser.close();
console.log(JSON.stringify(found));
