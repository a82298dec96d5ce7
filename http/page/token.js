// The entry of a token, where the broker wants one.
import { find, setText } from './dom.js';
import { sentence } from './format.js';
import { setToken, token } from './server.js';

export function makeTokenPanel() {
  const panel = find('token-panel');
  find('forget-token').addEventListener('click', () => {
    setToken(null);
    location.reload();
  });

  // Shows the panel. The promise is kept when another token was entered.
  function enter(why) {
    const before = token();
    setText(find('token-error'), before ? sentence(why) : '');
    find('content').hidden = true;
    find('sections').hidden = true;
    find('forget-token').hidden = true;
    panel.hidden = false;
    find('token').focus();
    return new Promise((resolve) => {
      find('token-form').addEventListener('submit', (event) => {
        event.preventDefault();
        setToken(find('token').value.trim());
        find('token').value = '';
        resolve();
      }, { once: true });
    });
  }

  function accepted() {
    panel.hidden = true;
    find('content').hidden = false;
    find('sections').hidden = false;
    find('forget-token').hidden = !token();
  }
  return { enter, accepted };
}
