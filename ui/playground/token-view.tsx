// The text of an answer token by token: how sure the model was is the colour, what else it thought of is shown on hover
// or focus.

import type { SampledToken } from './message.ts';

export function TokenView({ tokens }: { tokens: readonly SampledToken[] }) {
  return (
    <p class="text">
      {tokens.map((token, place) => (
        <Token key={place} {...token} />
      ))}
    </p>
  );
}

function Token({ token, logprob, alternatives }: SampledToken) {
  const probability = Math.exp(logprob);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: its probabilities are shown to who moves by keyboard too
    <span class="token" tabIndex={0} style={{ '--doubt': 1 - probability }}>
      {token}
      <span class="alternatives" role="tooltip">
        {(alternatives.length > 0 ? alternatives : [{ token, logprob }]).map((other) => (
          <span key={other.token} class={other.token === token ? 'chosen' : ''}>
            <code>{JSON.stringify(other.token)}</code> {(100 * Math.exp(other.logprob)).toFixed(1)} %
          </span>
        ))}
      </span>
    </span>
  );
}
