// Puts the parts of the page together.
import { showBatches } from './batches.js';
import { makeCharts } from './charts.js';
import { find, setAttribute, setText } from './dom.js';
import { makeEngines } from './engines.js';
import { makeFailed } from './failed.js';
import { follow } from './feed.js';
import { makeJobDialog } from './job.js';
import { makeNewest } from './newest.js';
import { makePrompt } from './prompt.js';
import { showSummary } from './summary.js';
import { makeTheme } from './theme.js';
import { makeTokenPanel } from './token.js';
import { makeUpload } from './upload.js';

function connection(state, text) {
  setAttribute(find('connection'), 'data-state', state);
  setText(find('connection'), text);
  find('content').classList.toggle('old', state === 'away');
}

makeTheme();
const tokenPanel = makeTokenPanel();
const openJob = makeJobDialog();
const showCharts = makeCharts();
const parts = [makeEngines(), showBatches, makeFailed(openJob), makeNewest(openJob), makePrompt(),
  makeUpload()];

function fail(error) {
  connection('away', 'This page has a fault: load it again');
  throw error;
}

follow({
  view(view) {
    tokenPanel.accepted();
    connection('live', 'Live');
    showSummary(view, showCharts(view));
    for (const show of parts) show(view);
  },
  away(why) {
    connection('away', why);
  },
  refused(status, why) {
    connection('waiting', 'A token is needed');
    return tokenPanel.enter(why);
  },
}).catch(fail);
