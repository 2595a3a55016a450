// Looks at a live page: `node look.mjs '{"url": …}'` prints what was found as JSON. Each part of the request is asked for
// by name, so that a test says what it needs.
import { createRequire } from "node:module";
import { writeFileSync } from "node:fs";

const require = createRequire(process.env.JAXOBS_PAGE_BROWSER ?? import.meta.url);
const { chromium } = require("playwright-core");
const axe = require("axe-core");

const wanted = JSON.parse(process.argv[2]);
const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true };
const DESK = { viewport: { width: 1280, height: 900 } };

const browser = await chromium.launch({
  executablePath: wanted.browser,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync"],
});
const found = { console: [], requests: [] };

async function open(options) {
  const credentials = wanted.token ? { username: "anyone", password: wanted.token } : undefined;
  const context = await browser.newContext({ ...options, httpCredentials: credentials });
  const page = await context.newPage();
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) found.console.push(message.text());
  });
  page.on("pageerror", (error) => found.console.push(String(error)));
  page.on("request", (request) => found.requests.push(request.url()));
  found.status = (await page.goto(wanted.url)).status();
  return page;
}

// The page, the metrics and the snapshot of one moment, as the browser may fetch them.
async function oneMoment(page) {
  return page.evaluate(async () => {
    const get = async (path) => (await fetch(path)).text();
    for (let tries = 0; tries < 40; tries++) {
      const before = JSON.parse(await get("snapshot")).unix_seconds;
      const [text, metrics] = [await get("./"), await get("metrics")];
      if (JSON.parse(await get("snapshot")).unix_seconds !== before) continue;
      const drawn = new DOMParser().parseFromString(text, "text/html");
      const data = (selector) => [...drawn.querySelectorAll(selector)].map((one) => ({ ...one.dataset }));
      return { metrics, roofs: data("g[data-dtype]"), executables: data(".mark.executable"), operations: data(".mark.operation") };
    }
    return null;
  });
}

// Where the marks are on the screen, within their chart.
async function positions(page) {
  return page.evaluate(() => [...document.querySelectorAll("#roofline .mark")].map((mark) => {
    const box = mark.getBoundingClientRect(), chart = mark.closest(".jaxobs-chart").getBoundingClientRect();
    return { across: (box.left + box.width / 2 - chart.left) / chart.width, down: (box.top + box.height / 2 - chart.top) / chart.height,
             wide: box.width, tip: mark.dataset.tip };
  }));
}

async function faults(page) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
  await page.evaluate(axe.source);
  const result = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  return result.violations.map((one) => ({ id: one.id, impact: one.impact, help: one.help, nodes: one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)) }));
}

const page = await open(DESK);
if (wanted.drawn) {
  await page.waitForSelector("#roofline .mark.executable", { state: "attached", timeout: 60000 });
  await page.waitForSelector("#roofline .mark.operation", { state: "attached", timeout: 90000 });
  found.moment = await oneMoment(page);
  found.positions = await positions(page);
}
if (wanted.follow) {
  // What the reader has opened, and where they are, stays while everything around it changes.
  await page.click("#executables-table summary");
  await page.focus("#executables-table summary");
  await page.evaluate(() => { document.querySelector("#roofline .jaxobs-chart").mine = true; scrollTo(0, 400); });
  const facts = () => page.textContent("header p.facts");
  const before = await facts();
  await page.waitForFunction((old) => document.querySelector("header p.facts").textContent !== old, before, { timeout: 10000 });
  found.kept = await page.evaluate(() => ({
    open: document.querySelector("#executables-table").open,
    focus: document.activeElement === document.querySelector("#executables-table summary"),
    same: document.querySelector("#roofline .jaxobs-chart").mine === true,
    scrolled: scrollY,
  }));
  await page.focus("#roofline .jaxobs-chart");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  found.tip = await page.evaluate(() => ({ hidden: document.querySelector("#tip").hidden, text: document.querySelector("#tip").textContent }));
  await page.keyboard.press("Escape");
  await page.evaluate(() => Object.defineProperty(document, "hidden", { value: true, configurable: true }));
  await page.waitForTimeout(1500);
  const asked = found.requests.length;
  await page.waitForTimeout(3000);
  found.asked_while_hidden = found.requests.length - asked;
  await page.evaluate(() => { delete document.hidden; });
}
if (wanted.recompile) {
  const began = Date.now();
  writeFileSync(wanted.recompile.file, String(wanted.recompile.rows));
  await page.waitForFunction((text) => document.querySelector("#compiles")?.textContent.includes(text), wanted.recompile.text, { timeout: 30000, polling: 50 });
  found.recompile_seconds = (Date.now() - began) / 1000;
}
if (wanted.faults) {
  const dark = await open({ ...DESK, colorScheme: "dark" });
  const phone = await open(PHONE);
  found.faults = [...(await faults(page)), ...(await faults(dark)), ...(await faults(phone))];
  found.phone_overflow = await phone.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await dark.context().close();
  await phone.context().close();
}
if (wanted.screenshots) {
  for (const [name, options] of Object.entries({ light: DESK, dark: { ...DESK, colorScheme: "dark" }, phone: PHONE })) {
    const one = await open(options);
    await one.waitForTimeout(1500);
    await one.screenshot({ path: `${wanted.screenshots}/page-${name}.png`, fullPage: true });
    if (name === "light") {  // for the README: what one sees first
      await one.screenshot({ path: `${wanted.screenshots}/page-top.png`, fullPage: true, clip: { x: 0, y: 0, width: 1280, height: 960 } });
    }
    await one.context().close();
  }
}
await browser.close();
console.log(JSON.stringify(found));
