// What both clients do by default: one transaction, one loop of WATCH or one pipeline. ../README.md has the contract.
'use strict';

const { createInterface } = require('node:readline');

const say = (line) => console.log(JSON.stringify(line));

// A value of the settings as text; a function by what it answers first.
function shown(value) {
  if (typeof value === 'function') return `${value.name || 'function'}: ${[1, 2, 3].map((times) => value(times)).join(', ')}, ...`;
  return value === undefined ? 'none' : JSON.stringify(value);
}

// Says what the settings are, and when it is told to, what came of the work. `kinds` has a function for each.
async function defaults(client, settings, kinds, kind, prefix) {
  const texts = Object.entries(settings).map(([name, value]) => [name, shown(value)]);
  say({ client, settings: Object.fromEntries(texts) });
  const lines = createInterface({ input: process.stdin });
  await new Promise((resolve) => lines.once('line', resolve));
  try {
    say({ ok: true, heard: JSON.stringify(await kinds[kind](`${prefix}:x`, `${prefix}:y`)) });
  } catch (error) {
    say({ ok: false, heard: `${error.constructor.name}: ${error.message}` });
  }
}

module.exports = { defaults };
