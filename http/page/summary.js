// What matters most, as a sentence, and the counts of jobs.
import { element, find, keep, setText } from './dom.js';
import { count, plural, rate, roughly } from './format.js';

const states = [['queued', 'Queued'], ['leased', 'With engines'], ['completed', 'Completed'],
  ['failed', 'Failed'], ['cancelled', 'Cancelled'], ['expired', 'Expired']];
const speedSamples = 10;
const list = new Intl.ListFormat('en', { type: 'conjunction' });

// Jobs per second over the last samples; null where none has a rate.
function speedOf(samples) {
  const rates = samples.slice(-speedSamples).map((one) => one.jobs_per_second)
    .filter((one) => one !== null);
  return rates.length === 0 ? null : rates.reduce((sum, one) => sum + one, 0) / rates.length;
}

// What there is to say where no job is left to do.
function closedText({ completed, failed, cancelled, expired }) {
  if (completed + failed + cancelled + expired === 0) return 'No job has come yet.';
  return failed === 0 ? 'All is done.' : `All is done, ${plural(failed, 'job')} failed.`;
}

function headline(view, open, speed) {
  if (view.draining) return 'The broker is shutting down.';
  if (view.paused) return open === 0 ? 'All jobs are paused.' : `${plural(open, 'job')} paused.`;
  if (open === 0) return closedText(view.counts);
  if (view.engines.length === 0) {
    return `${plural(open, 'job')} ${open === 1 ? 'waits' : 'wait'} for an engine.`;
  }
  if (speed === null || speed < 0.001) return `${plural(open, 'job')} under way.`;
  return `${plural(open, 'job')} to go, about ${roughly((1_000 * open) / speed)} left.`;
}

// The speed is that of the last seconds, so it says nothing once no job is left.
function subline(view, open, speed) {
  const engines = view.engines_known === 0 ? 'No engine is connected'
    : `${plural(view.engines_known, 'engine')} connected`;
  const models = [...new Set(view.engines.map((engine) => engine.model))];
  const named = models.length > 3 ? [...models.slice(0, 2), `${models.length - 2} more`] : models;
  const what = models.length === 0 ? '' : `, serving ${list.format(named)}`;
  const speedText = speed && open > 0 ? `. ${rate(speed)} jobs end each second.` : '.';
  return engines + what + speedText;
}

function notice(view) {
  const parts = [];
  if (view.refuses) parts.push(`New jobs are refused: ${view.refuses}`);
  if (view.paused_models.length > 0) parts.push(`Paused: ${view.paused_models.join(', ')}`);
  return parts.join('. ');
}

// What the figure of a state has below it.
function detail(view, state) {
  const ages = view.queues.map((queue) => queue.oldest_ms).filter(Number.isFinite);
  if (state !== 'queued' || ages.length === 0) return '';
  const of = view.more_queues ? ` of the first ${count(view.queues.length)} tenants` : '';
  return `oldest${of} ${roughly(Math.max(...ages))}`;
}

export function showSummary(view, samples) {
  const { counts } = view;
  const speed = speedOf(samples);
  const open = counts.queued + counts.leased;
  setText(find('headline'), headline(view, open, speed));
  setText(find('subline'), subline(view, open, speed));
  setText(find('notice'), notice(view));
  find('notice').hidden = notice(view) === '';
  setText(find('version'), view.version);
  keep(find('figures'), states, ([state]) => state,
    ([, name]) => element('div', {}, element('dt', {}, name), element('dd', {}),
      element('dd', { class: 'detail' })),
    (row, [state]) => {
      setText(row.children[1], count(counts[state]));
      setText(row.children[2], detail(view, state));
      row.classList.toggle('bad', state === 'failed' && counts.failed > 0);
    });
}
