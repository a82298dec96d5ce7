// Puts the parts of the page together.
import { showBatches } from './batches.js';
import { makeCharts } from './charts.js';
import { find, setAttribute, setText } from './dom.js';
import { makeEngines } from './engines.js';
import { makeFailed } from './failed.js';
import { follow } from './feed.js';
import { moment, sentence } from './format.js';
import { makeJobDialog } from './job.js';
import { makeNewest } from './newest.js';
import { makePrompt } from './prompt.js';
import { showSummary } from './summary.js';
import { makeTheme } from './theme.js';
import { makeTokenPanel } from './token.js';
import { makeUpload } from './upload.js';

// The header has room for a word; `trouble` is a sentence above the content.
function connection(state, text, trouble = '') {
  setAttribute(find('connection'), 'data-state', state);
  setText(find('connection'), text);
  setText(find('trouble'), trouble);
  find('trouble').hidden = trouble === '';
  find('content').classList.toggle('old', state === 'away');
}

makeTheme();
const tokenPanel = makeTokenPanel();
const openJob = makeJobDialog();
const showCharts = makeCharts();
const parts = [makeEngines(), showBatches, makeFailed(openJob), makeNewest(openJob), makePrompt(),
  makeUpload()];

function fail(error) {
  connection('away', 'Stopped', 'This page has a fault and has stopped. Load it again.');
  throw error;
}

let seenUs = null; // when the newest view was made

function away(why) {
  const old = seenUs === null ? '' : ` What you see is from ${moment(seenUs)}.`;
  connection('away', 'No answer', `${sentence(why)}${old} The page goes on asking.`);
}

follow({
  view(view) {
    seenUs = view.time_us;
    tokenPanel.accepted();
    connection('live', 'Live');
    showSummary(view, showCharts(view));
    for (const show of parts) show(view);
  },
  away,
  refused(status, why) {
    connection('waiting', 'A token is needed');
    return tokenPanel.enter(why);
  },
}).catch(fail);
