// Runs a file of requests as a batch: drop it, see how far it is, take its results.
import { element, find, keep, makeBar, setAttribute, setBar, setText } from './dom.js';
import { count, plural } from './format.js';
import { learnNames } from './names.js';
import { ask, askJson, problemOf } from './server.js';

const over = new Set(['completed', 'failed', 'expired', 'cancelled']);
const listed = 5;
const named = 100; // whose files are known by name in the other sections
const restViews = 5; // of which one looks, while no batch is known that has not ended
const headBytes = 256 * 1024; // in which the first line ends

// The address that the first line asks; the server refuses a file whose lines differ.
async function endpointOf(file) {
  const head = await file.slice(0, headBytes).text();
  try {
    return JSON.parse(head.trimStart().split('\n')[0]).url ?? '/v1/chat/completions';
  } catch {
    return '/v1/chat/completions';
  }
}

async function submit(file) {
  const form = new FormData();
  form.append('purpose', 'batch');
  form.append('file', file, file.name);
  const { id } = await askJson('/v1/files', { method: 'POST', body: form });
  await askJson('/v1/batches', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({
      input_file_id: id,
      endpoint: await endpointOf(file),
      completion_window: '24h',
      metadata: { file: file.name },
    }),
  });
}

async function download(id, name) {
  const answer = await ask(`/v1/files/${id}/content`);
  if (!answer.ok) throw new Error(await problemOf(answer));
  const link = element('a', { href: URL.createObjectURL(await answer.blob()), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

function stateText({ status, request_counts: counts, errors }) {
  const [fault, ...others] = errors?.data ?? [];
  if (fault) {
    return `${fault.line ? `line ${fault.line}: ` : ''}${fault.message}${
      others.length > 0 ? `, and ${plural(others.length, 'more error')}` : ''}`;
  }
  if (status === 'validating') return 'is being read';
  const done = `${count(counts.completed + counts.failed)} of ${plural(counts.total, 'line')}`;
  const failed = counts.failed > 0 ? `, ${count(counts.failed)} failed` : '';
  return `${status.replace('_', ' ')}, ${done}${failed}`;
}

export function makeUpload() {
  const [zone, input, note] = [find('drop'), find('file'), find('drop-note')];
  let open = true; // a batch may not have ended
  let views = 0; // since the last look
  let kept = null; // whether the server keeps files; null: it is not known yet

  function tell(text, bad = false) {
    note.classList.toggle('error-text', bad);
    setText(note, text);
  }

  async function run(files) {
    for (const file of files) {
      tell(`${file.name} is being sent…`);
      try {
        await submit(file);
        tell(`${file.name} was sent.`);
      } catch (error) {
        tell(`${file.name}: ${error.message}`, true);
      }
    }
    open = true;
  }

  function button(words, act) {
    return element('button', {
      type: 'button',
      class: 'link',
      onclick: () => act().catch(({ message }) => tell(message, true)),
    }, words);
  }

  function make(batch) {
    return element('li', {}, element('b', {}, batch.metadata?.file ?? batch.id),
      element('span', { class: 'note' }), makeBar(`Progress of ${batch.id}`),
      element('span', { class: 'actions' }));
  }

  function update(item, batch) {
    const [, state, bar, actions] = item.children;
    const { completed, failed, total } = batch.request_counts;
    setText(state, stateText(batch));
    setAttribute(item, 'data-state', batch.status);
    const share = (number) => (total > 0 ? number / total : 0);
    setBar(bar, [['completed', share(completed)], ['failed', share(failed)]], stateText(batch));
    const { output_file_id: output, error_file_id: faults } = batch;
    const name = (batch.metadata?.file ?? batch.id).replace(/\.\w+$/, '');
    const wanted = [
      output && ['Results', () => download(output, `${name}.results.jsonl`)],
      faults && ['Errors', () => download(faults, `${name}.errors.jsonl`)],
      !over.has(batch.status) && ['Cancel', async () => {
        await askJson(`/v1/batches/${batch.id}/cancel`, { method: 'POST' });
      }],
    ].filter(Boolean);
    keep(actions, wanted, ([words]) => words, ([words, act]) => button(words, act), () => {});
  }

  async function look() {
    kept ??= (await askJson('/version')).files === true;
    find('upload').hidden = !kept;
    find('nav-upload').hidden = !kept;
    if (!kept) return;
    const { data } = await askJson(`/v1/batches?limit=${named}`);
    learnNames(data);
    open = data.some(({ status }) => !over.has(status));
    keep(find('runs'), data.slice(0, listed), ({ id }) => id, make, update);
  }

  input.addEventListener('change', () => run([...input.files]).then(() => { input.value = ''; }));
  for (const kind of ['dragenter', 'dragover', 'dragleave', 'drop']) {
    document.addEventListener(kind, (event) => {
      if (!kept || !event.dataTransfer?.types.includes('Files')) return;
      event.preventDefault();
      zone.classList.toggle('over', kind === 'dragover');
      if (kind === 'drop') run([...event.dataTransfer.files]);
    });
  }
  let looking = false;
  return async () => {
    views += 1;
    // Another client may have begun a batch, so it looks now and then even where all have ended.
    if (looking || kept === false || (!open && views < restViews)) return;
    looking = true;
    views = 0;
    try {
      await look();
    } catch {
      open = true; // again with the next view
    }
    looking = false;
  };
}
