// Asks once a second how the broker is, while the page can be seen.
import { ask, problemOf } from './server.js';

const pauseMs = 1_020; // the server makes a new view each second
const awayMs = 2_000;

function wait(ms) {
  return new Promise((resolve) => { setTimeout(resolve, ms); });
}

function shown() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    document.addEventListener('visibilitychange', resolve, { once: true });
  });
}

// Calls view(view), away(why) and refused(status, why). refused returns a promise that is kept when
// there is another token to try.
export async function follow({ view, away, refused }) {
  let since = 0;
  for (;;) {
    await shown();
    let pause = pauseMs;
    try {
      const answer = await ask(`/live?since=${since}`);
      if (answer.status === 401 || answer.status === 403) {
        await refused(answer.status, await problemOf(answer));
        since = 0;
        continue;
      }
      if (answer.ok) {
        const now = await answer.json();
        since = now.time_us;
        view(now);
      } else {
        away(await problemOf(answer));
        pause = awayMs;
      }
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // no fault of the network
      away('The broker does not answer');
      pause = awayMs;
    }
    await wait(pause);
  }
}
