// The three charts, and the samples that they show.
import { Chart } from './chart.js';
import { find } from './dom.js';
import { duration, rate, shortCount } from './format.js';

const kept = 900;
const meanSamples = 5;
const meanUs = 6e6;

// Adds the mean rate of the last seconds, because engines end jobs in waves.
function withMean(samples) {
  return samples.map((sample, number) => {
    const near = samples.slice(Math.max(0, number - meanSamples + 1), number + 1)
      .filter((one) => sample.time_us - one.time_us < meanUs && one.jobs_per_second !== null);
    const sum = near.reduce((all, one) => all + one.jobs_per_second, 0);
    return { ...sample, jobs: near.length > 0 ? sum / near.length : null };
  });
}

function axisTime(ms) {
  if (ms === 0) return '0';
  return ms < 1_000 ? `${shortCount(ms)} ms` : `${shortCount(ms / 1_000)} s`;
}

export function makeCharts() {
  let samples = [];
  const one = (title, key) => ({
    title,
    series: [{ value: (sample) => sample[key] }],
    text: rate,
    axis: shortCount,
  });
  const charts = [
    new Chart(find('chart-jobs'), one('Jobs ended per second', 'jobs')),
    new Chart(find('chart-tokens'), one('Tokens per second', 'tokens_per_second')),
    new Chart(find('chart-times'), {
      title: 'Median time in engine',
      series: [{ value: (sample) => sample.typical_ms },
        { name: '95 % in', value: (sample) => sample.slow_ms }],
      text: duration,
      axis: axisTime,
    }),
  ];
  return (view) => {
    const last = samples.at(-1)?.time_us ?? 0;
    samples = [...samples, ...view.samples.filter((sample) => sample.time_us > last)].slice(-kept);
    const shown = withMean(samples);
    for (const chart of charts) chart.show(shown);
    return samples;
  };
}
