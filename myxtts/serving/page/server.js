// Requests to the server. Errors carry the one line that it answers with.

let token = sessionStorage.getItem("myxtts-token");

export class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function useToken(value) {
  token = value;
  sessionStorage.setItem("myxtts-token", value);
}

export async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(path, { ...options, headers });
  if (answer.ok) return answer;
  let message = answer.statusText;
  try { message = (await answer.json()).error.message; } catch { /* not ours */ }
  throw new ServerError(answer.status, message);
}

export async function list(path) {
  return (await (await ask(path)).json()).data;
}
