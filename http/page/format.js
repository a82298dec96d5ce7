// Numbers and times as people read them.
const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const oneDigit = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

// "12,345", and "12.3M" where it would be long.
export function count(number) {
  return number < 10_000_000 ? whole.format(number) : short.format(number);
}

export function shortCount(number) {
  return number < 10 && number % 1 !== 0 ? oneDigit.format(number) : short.format(number);
}

export function rate(number) {
  return number < 10 ? oneDigit.format(number) : whole.format(number);
}

export function percent(share) {
  return `${whole.format(100 * share)} %`;
}

export function bytes(number) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; number >= 1024 && unit < units.length - 1; unit += 1) number /= 1024;
  if (Math.round(number) === 1024 && unit < units.length - 1) [number, unit] = [1, unit + 1];
  const text = number < 10 && unit > 0 ? oneDigit.format(number) : whole.format(number);
  return `${text} ${units[unit]}`;
}

// "0.8 ms", "12 ms", "1.2 s", "2 min 5 s", "3 h 12 min", "2 d 4 h"
export function duration(ms) {
  if (ms < 10) return `${oneDigit.format(ms)} ms`;
  if (ms < 1_000) return `${whole.format(ms)} ms`;
  if (ms < 10_000) return `${oneDigit.format(ms / 1_000)} s`;
  const seconds = Math.round(ms / 1_000);
  const [minutes, hours, days] = [60, 3_600, 86_400].map((size) => Math.floor(seconds / size));
  if (minutes === 0) return `${seconds} s`;
  if (hours === 0) return `${minutes} min ${seconds % 60} s`;
  if (days === 0) return `${hours} h ${minutes % 60} min`;
  return `${days} d ${hours % 24} h`;
}

// A time that is only guessed: "25 s", "4 min", "3 h".
export function roughly(ms) {
  const seconds = ms / 1_000;
  if (seconds < 10) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 90) return `${5 * Math.round(seconds / 5)} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 48 * 3_600) return `${Math.round(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}

// The time of day, and the date where it is another day.
export function moment(us, precise = false) {
  const date = new Date(us / 1_000);
  const today = date.toDateString() === new Date().toDateString();
  const time = date.toLocaleTimeString('en-GB', {
    hour: '2-digit', minute: '2-digit', second: '2-digit',
    ...(precise ? { fractionalSecondDigits: 3 } : {}),
  });
  return today ? time : `${date.toLocaleDateString('en-CA')} ${time}`;
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

// A message as a sentence of its own.
export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.');
}
