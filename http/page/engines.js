// The engines: what they serve, how fast, and how full they are.
import { element, find, keep, makeBar, setAttribute, setBar, setText } from './dom.js';
import { bytes, count, duration, percent, plural, rate } from './format.js';

const silentMs = 3_000;
const firstCards = 6;

function stateOf(engine) {
  if (engine.silent_ms >= silentMs) return ['silent', `silent for ${duration(engine.silent_ms)}`];
  const state = engine.rows > 0 || engine.tokens_per_second > 0 ? 'computes' : 'idle';
  return [state, state];
}

// Each gauge is [name, share, text]. What an engine does not tell has none.
function gaugesOf(engine) {
  const gauges = [];
  if (engine.max_rows > 0) {
    gauges.push(['Batch', engine.rows / engine.max_rows,
      `${count(engine.rows)} of ${count(engine.max_rows)}`]);
  } else {
    gauges.push(['Batch', engine.leases > 0 ? engine.rows / engine.leases : 0, engine.rows > 0
      ? `${count(engine.rows)} of ${plural(engine.leases, 'job')}`
      : `${plural(engine.leases, 'job')} held`]);
  }
  if (engine.kv_pool_tokens > 0) {
    const share = engine.kv_used_tokens / engine.kv_pool_tokens;
    gauges.push(['KV memory', share, engine.kv_pool_bytes > 0
      ? `${percent(share)} of ${bytes(engine.kv_pool_bytes)}` : percent(share)]);
    const cached = engine.prefix_tokens / engine.kv_pool_tokens;
    gauges.push(['Prefix cache', cached, percent(cached)]);
  }
  if (engine.prompt_tokens > 0) {
    const reused = engine.cached_tokens / engine.prompt_tokens;
    gauges.push(['Reused', reused, `${percent(reused)} of prompts`]);
  }
  return gauges;
}

function make() {
  return element('article', { class: 'engine' },
    element('h3'), element('p', { class: 'about' }),
    element('p', { class: 'speed' }, element('b'), element('span', {}, 'tokens/s'),
      element('span', { class: 'state' })),
    element('div', { class: 'gauges' }));
}

function update(card, engine) {
  const [title, about, speed, gauges] = card.children;
  setText(title, engine.name);
  setText(about, [engine.model, engine.kv_policy && `KV ${engine.kv_policy}`,
    engine.context_tokens && `context ${count(engine.context_tokens)}`]
    .filter(Boolean).join(' · '));
  setText(speed.children[0], rate(engine.tokens_per_second));
  const [state, words] = stateOf(engine);
  setAttribute(speed.lastElementChild, 'data-state', state);
  setText(speed.lastElementChild, words);
  keep(gauges, gaugesOf(engine), ([name]) => name,
    ([name]) => element('div', { class: 'gauge' }, element('span', { class: 'name' }, name),
      makeBar(`${name} of ${engine.name}`), element('span', { class: 'value' })),
    (row, [, share, text]) => {
      setBar(row.children[1], [['used', share]], text);
      setText(row.children[2], text);
    });
}

// Those that need somebody come first. The others stay in the broker's order, which is by name.
function ordered(engines) {
  const silent = (engine) => Number(engine.silent_ms >= silentMs);
  return [...engines].sort((one, other) => silent(other) - silent(one));
}

function noteOf(shown, known) {
  if (known === 0) return 'None. Start one with millrace-engine --model M.gguf';
  if (shown < known) return `${count(shown)} of ${count(known)}, silent ones first`;
  return known > 1 ? plural(known, 'engine') : '';
}

function draw({ engines, engines_known: known }, all) {
  const shown = ordered(engines).slice(0, all ? engines.length : firstCards);
  const more = find('engines-more');
  more.hidden = engines.length <= firstCards;
  setText(more, all ? `Show the first ${firstCards}` : `Show all ${count(engines.length)}`);
  setAttribute(more, 'aria-expanded', all);
  setText(find('engines-note'), noteOf(shown.length, known));
  const seen = new Map(); // two engines may have one name
  const keyed = shown.map((engine) => {
    seen.set(engine.name, (seen.get(engine.name) ?? 0) + 1);
    return { engine, key: `${seen.get(engine.name)} ${engine.name}` };
  });
  keep(find('engine-list'), keyed, ({ key }) => key, ({ engine }) => make(engine),
    (card, { engine }) => update(card, engine));
}

export function makeEngines() {
  let [view, all] = [null, false];
  find('engines-more').addEventListener('click', () => {
    all = !all;
    draw(view, all);
  });
  return (now) => {
    view = now;
    draw(view, all);
  };
}
