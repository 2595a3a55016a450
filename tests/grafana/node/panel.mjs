// A panel's way from Prometheus's answer to its picture, by Grafana's own code: standard input and output are JSON.
//   in:  {panel, frames: [{refId, table, legend, result}]}, `panel` as the dashboard has it, `result` as the API gives it
//   out: {frames: [{name, refId, fields: [{name as shown, type, labels, values}]}], series: [{name, x, y, size, color, labels}]}
// What is in no npm package is written here: the data source's frames and the XY chart's choice of fields.
import { createRequire } from 'node:module';

const require = createRequire(process.env.JAXOBS_GRAFANA_DATA ?? import.meta.url);
const { JSDOM } = require('jsdom');

const dom = new JSDOM('', { url: 'http://localhost/' });
for (const name of ['document', 'Element', 'HTMLElement', 'Node', 'localStorage', 'DOMParser']) {
  globalThis[name] = dom.window[name];
}
globalThis.window = dom.window;

const data = require('@grafana/data');
const { firstValueFrom } = require('rxjs');

data.standardTransformersRegistry.setInit(() => {
  const byId = new Map(Object.values(data.standardTransformers).map((each) => [each.id, each]));
  return [...byId.values()].map((transformation) => ({ id: transformation.id, name: transformation.name, transformation }));
});

// Table frames as the Prometheus data source makes them: time, labels in order, value.
function tableFrame({ refId, result }, queries) {
  const names = [...new Set(result.flatMap((series) => Object.keys(series.metric).sort()))];
  const rows = result.flatMap((series) =>
    (series.values ?? [series.value]).map(([time, value]) => ({ time: time * 1000, labels: series.metric, value: Number(value) }))
  );
  const field = (name, type, values) => ({ name, type, config: {}, values });
  return {
    refId,
    length: rows.length,
    fields: rows.length === 0 ? [] : [
      field('Time', 'time', rows.map((row) => row.time)),
      ...names.map((name) => field(name, 'string', rows.map((row) => row.labels[name] ?? ''))),
      field(queries > 1 ? `Value #${refId}` : 'Value', 'number', rows.map((row) => row.value)),
    ],
  };
}

function lineFrames({ refId, legend, result }) {
  return result.map((series) => ({
    refId,
    length: series.values.length,
    name: legend.replace(/\{\{(\w+)\}\}/g, (_, label) => series.metric[label] ?? ''),
    fields: [
      { name: 'Time', type: 'time', config: {}, values: series.values.map(([time]) => time * 1000) },
      { name: 'Value', type: 'number', config: {}, labels: series.metric, values: series.values.map(([, value]) => Number(value)) },
    ],
  }));
}

// Manual mapping of the XY chart (public/app/plugins/panel/xychart/utils.ts of Grafana 11): for each entry every frame that
// matches gives one series, of the first number fields that match x, then y.
function xySeries(options, frames) {
  const number = data.FieldType.number;
  return options.series.flatMap((entry) => {
    const inFrame = data.getFrameMatchers(entry.frame.matcher);
    const matcher = (dimension) => (entry[dimension] ? data.getFieldMatcher(entry[dimension].matcher) : null);
    return frames.flatMap((frame, index) => {
      if (!inFrame(frame, index)) { return []; }
      const numbers = frame.fields.filter((field) => field.type === number);
      const found = (dimension, but) => {
        const matches = matcher(dimension);
        return matches && numbers.find((field) => field !== but && matches(field, frame, frames));
      };
      const x = found('x');
      const y = x && found('y', x);
      if (!x || !y) { return []; }
      const texts = frame.fields.filter((field) => field.type === data.FieldType.string);
      const labels = x.values.map((_, row) => Object.fromEntries(texts.map((field) => [field.name, field.values[row]])));
      return [{
        name: entry.name.fixed, x: x.values, y: y.values, size: found('size')?.values, color: found('color')?.values,
        labels, of: y.labels ?? {},
      }];
    });
  });
}

let text = '';
for await (const chunk of process.stdin) { text += chunk; }
const answers = JSON.parse(text).map(({ panel, frames }) => ({
  panel,
  frames: frames.flatMap((frame) => (frame.table ? [tableFrame(frame, frames.length)] : lineFrames(frame))),
}));
const shown = [];
for (const { panel, frames } of answers) {
  const transformed = await firstValueFrom(
    data.transformDataFrame(panel.transformations ?? [], frames, { interpolate: (value) => value })
  );
  shown.push({
    frames: transformed.map(({ name, refId, fields }) => ({
      name, refId, fields: fields.map((field) => ({
        name: data.getFieldDisplayName(field, { name, fields }), type: field.type, labels: field.labels,
        values: [...field.values],
      })),
    })),
    series: panel.type === 'xychart' ? xySeries(panel.options, transformed) : [],
  });
}
process.stdout.write(JSON.stringify(shown), () => process.exit(0));
