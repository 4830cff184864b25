// A labelled list to choose from.

interface Properties {
  readonly label: string;
  readonly options: readonly string[];
  readonly value: string;
  readonly choose: (value: string) => void;
}

export function Choice({ label, options, value, choose }: Properties) {
  return (
    <label>
      {label}{' '}
      <select value={value} onChange={({ currentTarget }) => choose(currentTarget.value)}>
        {options.map((option) => (
          <option key={option} value={option}>
            {option === '' ? 'default' : option}
          </option>
        ))}
      </select>
    </label>
  );
}
