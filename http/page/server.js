// Questions to the server that this page came from, with the token that was entered. The token is
// kept for this tab alone.
const name = 'millrace-token';

export function token() {
  return sessionStorage.getItem(name);
}

export function setToken(text) {
  if (text) sessionStorage.setItem(name, text);
  else sessionStorage.removeItem(name);
}

// The answer, whatever its status is. Fails where there is no connection.
export function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (token()) headers.Authorization = `Bearer ${token()}`;
  return fetch(path, { cache: 'no-store', ...options, headers });
}

// What went wrong, from the body of an answer that is an error.
export async function problemOf(answer) {
  try {
    const { error } = await answer.json();
    return error.message;
  } catch {
    return `the server answered with status ${answer.status}`;
  }
}

// The body of an answer as a value. Fails with what went wrong.
export async function askJson(path, options) {
  const answer = await ask(path, options);
  if (!answer.ok) throw new Error(await problemOf(answer));
  return answer.json();
}
