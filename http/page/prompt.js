// Tries a prompt: the answer comes piece by piece.
import { find, keep, element, setText } from './dom.js';
import { eventsOf } from './events.js';
import { count, duration, plural, rate } from './format.js';
import { ask, problemOf } from './server.js';

function body() {
  return JSON.stringify({
    model: find('prompt-model').value || undefined,
    messages: [{ role: 'user', content: find('prompt').value }],
    max_tokens: Number(find('prompt-tokens').value),
    temperature: Number(find('prompt-temperature').value),
    stream: true,
    stream_options: { include_usage: true },
  });
}

// What was used, and how fast it came.
function noteOf(usage, times, reason) {
  const parts = [];
  if (times.first) parts.push(`first token after ${duration(times.first - times.begun)}`);
  if (usage) {
    parts.push(`${plural(usage.prompt_tokens, 'token')} in, ${count(usage.completion_tokens)} out`);
    const s = (times.last - times.first) / 1_000;
    if (s > 0.05 && usage.completion_tokens > 1) {
      parts.push(`${rate((usage.completion_tokens - 1) / s)} tokens/s`);
    }
  }
  if (reason === 'length') parts.push('cut off at its most tokens');
  const text = parts.join(' · ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

async function send(signal) {
  const times = { begun: performance.now(), first: 0, last: 0 };
  let [usage, reason] = [null, null];
  const answer = await ask('/v1/chat/completions', {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: body(), signal,
  });
  if (!answer.ok) throw new Error(await problemOf(answer));
  for await (const data of eventsOf(answer)) {
    if (data === '[DONE]') break;
    const event = JSON.parse(data);
    if (event.error) throw new Error(event.error.message);
    usage = event.usage ?? usage;
    reason = event.choices?.[0]?.finish_reason ?? reason;
    const text = event.choices?.[0]?.delta?.content;
    if (!text) continue;
    times.last = performance.now();
    times.first ||= times.last;
    find('reply').append(text);
  }
  return noteOf(usage, times, reason);
}

export function makePrompt() {
  let running = null;
  const note = find('reply-note');
  const showRunning = () => {
    find('prompt-send').hidden = running !== null;
    find('prompt-stop').hidden = running === null;
  };
  find('prompt-stop').addEventListener('click', () => running?.abort());
  find('prompt').addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      find('prompt-form').requestSubmit();
    }
  });
  find('prompt-form').addEventListener('submit', async (event) => {
    event.preventDefault();
    if (running) return;
    running = new AbortController();
    showRunning();
    find('reply').replaceChildren();
    find('reply').hidden = false;
    note.classList.remove('error-text');
    setText(note, 'Waiting for the first token…');
    try {
      setText(note, await send(running.signal));
    } catch (error) {
      const stopped = error.name === 'AbortError';
      note.classList.toggle('error-text', !stopped);
      setText(note, stopped ? 'Stopped.' : error.message);
    }
    running = null;
    showRunning();
  });
  return ({ engines }) => {
    const models = [...new Set(engines.map((engine) => engine.model))];
    keep(find('prompt-model'), models, (model) => model, (model) => element('option', {}, model),
      () => {});
    find('prompt-send').disabled = models.length === 0;
  };
}
