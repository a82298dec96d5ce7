// One job: its timeline, why it failed, and the beginning of what it gave.
import { element, find } from './dom.js';
import { count, duration, moment } from './format.js';
import { askJson } from './server.js';

const words = {
  submitted: 'Submitted', waits_until: 'Waits until', taken: 'Taken by an engine',
  started: 'First step', first_token: 'First token', completed: 'Completed', failed: 'Failed',
  cancelled: 'Cancelled', expired: 'Expired',
};
const pauseMs = 1_000;

function track(timeline) {
  const [first, last] = [timeline[0].time_us, timeline.at(-1).time_us];
  const bar = element('div', { class: 'track', 'aria-hidden': 'true' });
  if (timeline.length < 2 || last <= first) return bar;
  timeline.slice(0, -1).forEach(({ what, time_us: from }, number) => {
    const part = element('i', { class: what });
    part.style.width = `${(100 * (timeline[number + 1].time_us - from)) / (last - first)}%`;
    bar.append(part);
  });
  return bar;
}

function events(timeline) {
  return element('ol', { class: 'timeline' }, ...timeline.map(({ what, time_us: time }, number) => {
    const after = number === 0 ? '' : ` · after ${
      duration(Math.max(0, time - timeline[number - 1].time_us) / 1_000)}`;
    return element('li', { 'data-what': what },
      element('span', {}, words[what] ?? what, element('span', { class: 'note' }, after)),
      element('time', { datetime: new Date(time / 1_000).toISOString() }, moment(time, true)));
  }));
}

function facts({ job, usage }) {
  const rows = [['Id', job.job], ['State', job.state], ['Batch', job.batch],
    ['Model', job.model === '*' ? 'any' : job.model],
    ['Stream', job.number ? `${job.stream}, number ${count(job.number)}` : job.stream],
    ['Engine', job.engine], ['Attempts', count(job.attempts)],
    ['Tokens', usage && `${count(usage.prompt_tokens)} in (${
      count(usage.cached_tokens)} from the prefix cache), ${count(usage.completion_tokens)} out`]];
  return element('dl', { class: 'facts' }, ...rows.filter(([, value]) => value)
    .flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]));
}

function outputs({ choices = [] }) {
  return choices.flatMap((choice) => [
    element('h3', {}, choices.length > 1 ? `Answer ${choice.index + 1}` : 'Answer'),
    element('pre', { class: 'output', tabindex: 0 }, choice.text
      + (choice.text.length < choice.text_bytes && choice.text_bytes > 4_096 ? ' …' : '')),
    element('p', { class: 'note' }, `It ended because of: ${choice.finish_reason}`)]);
}

function show(told) {
  const { job } = told;
  const parts = [track(told.timeline), events(told.timeline)];
  if (told.waits) parts.push(element('p', { class: 'notice' }, told.waits));
  if (job.error) {
    const { code, message, hint } = job.error;
    parts.push(element('div', { class: 'fault' }, element('b', {}, code), ` ${message}`,
      hint ? element('p', { class: 'note' }, hint) : null));
  }
  if (job.state === 'completed' && !told.choices) {
    parts.push(element('p', { class: 'notice' }, 'Its stream no longer holds the result, so the '
      + 'answer and its times are not known here. A dropped file’s are in the file’s results.'));
  }
  parts.push(element('h3', {}, 'Facts'), facts(told), ...outputs(told));
  find('job-body').replaceChildren(...parts);
}

// Returns a function that opens the dialog for a job.
export function makeJobDialog() {
  const dialog = find('job-dialog');
  let timer = null;
  let wanted = null;
  find('job-close').addEventListener('click', () => dialog.close());
  dialog.addEventListener('close', () => { clearTimeout(timer); wanted = null; });
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close(); // on what is around it
  });

  async function look(id) {
    try {
      const told = await askJson(`/live/jobs/${encodeURIComponent(id)}`);
      if (wanted !== id) return;
      find('job-title').textContent = told.job.custom_id || `Job ${told.job.job}`;
      show(told);
      if (!told.job.ended_us) timer = setTimeout(() => look(id), pauseMs);
    } catch (error) {
      if (wanted !== id) return;
      find('job-body').replaceChildren(
        element('p', { class: 'error-text', role: 'alert' }, error.message),
        element('p', { class: 'note' }, 'A job is found by its id alone, and not by its custom_id. '
          + 'The dialog of a listed job tells both, and so does millrace jobs ls.'));
    }
  }

  return (id) => {
    wanted = id;
    find('job-title').textContent = `Job ${id}`;
    find('job-body').replaceChildren(element('p', { class: 'note' }, 'Looking…'));
    if (!dialog.open) dialog.showModal();
    look(id);
  };
}
