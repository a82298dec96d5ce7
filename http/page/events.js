// Reads the server-sent events of an answer, one after the other, as their data.
export async function* eventsOf(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith('data: ')) yield line.slice(6);
    }
  }
}
