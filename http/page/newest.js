// The newest results, and the search for a job.
import { element, find, keep, setAttribute, setText } from './dom.js';
import { count, duration } from './format.js';
import { batchName } from './names.js';

function make(openJob) {
  return (one) => element('tr', {},
    element('td', { class: 'grows' }, element('div', { class: 'named' }, element('button', {
      type: 'button', class: 'link', title: one.job, onclick: () => openJob(one.job),
    }), element('span', { class: 'tail' }))),
    element('td', {}, element('span', { class: 'state' })),
    element('td', { class: 'figure spare' }), element('td', { class: 'figure spare' }),
    element('td', { class: 'figure' }));
}

function update(row, one) {
  const [cell, state, tokens, waited, ran] = row.children;
  const [name, batch] = cell.firstElementChild.children;
  setText(name, one.custom_id || one.job);
  setText(batch, one.batch ? `in ${batchName(one.batch)}` : '');
  setAttribute(state.firstElementChild, 'data-state', one.state);
  setText(state.firstElementChild, one.state);
  setText(tokens, one.completion_tokens === undefined ? ''
    : `${count(one.prompt_tokens)} → ${count(one.completion_tokens)}`);
  setText(waited, duration(one.wait_ms));
  setText(ran, one.total_ms === undefined ? '' : duration(one.total_ms));
}

export function makeNewest(openJob) {
  find('look-up').addEventListener('submit', (event) => {
    event.preventDefault();
    const id = find('job-id').value.trim();
    if (id) openJob(id);
  });
  return ({ latest }) => {
    find('newest-empty').hidden = latest.length > 0;
    keep(find('newest-rows'), latest.slice(0, 12), (one) => `${one.stream} ${one.number}`,
      make(openJob), update);
  };
}
