// One of a few: buttons side by side.
interface Props<T extends string> {
  label: string;
  options: readonly T[];
  chosen: T;
  choose: (option: T) => void;
}

export function Segments<T extends string>({ label, options, chosen, choose }: Props<T>) {
  return (
    <div class="seg" role="group" aria-label={label}>
      {options.map((each) => (
        <button key={each} aria-pressed={each === chosen} onClick={() => choose(each)}>
          {each[0].toUpperCase() + each.slice(1)}
        </button>
      ))}
    </div>
  );
}
