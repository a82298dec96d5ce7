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

// The answer, and the view where there is one; nothing where the connection failed, also within
// the view. What goes wrong in the page itself is none of this.
async function look(since) {
  try {
    const answer = await ask(`/live?since=${since}`);
    return { answer, now: answer.ok ? await answer.json() : null };
  } catch {
    return {};
  }
}

// Calls view(view), away(why) and refused(status, why). refused returns a promise that is kept when
// there is another token to try.
export async function follow({ view, away, refused }) {
  let since = 0;
  for (;;) {
    await shown();
    const { answer, now } = await look(since);
    if (now) {
      since = now.time_us;
      view(now);
    } else if (answer?.status === 401 || answer?.status === 403) {
      await refused(answer.status, await problemOf(answer));
      since = 0;
      continue;
    } else {
      away(answer ? await problemOf(answer) : 'The broker does not answer');
    }
    await wait(now ? pauseMs : awayMs);
  }
}
