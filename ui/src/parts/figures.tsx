// The row of large figures above a page.
export interface Figure {
  name: string;
  value: string;
  unit?: string;
  more: string;
}

export function Figures({ figures }: { figures: Figure[] }) {
  return (
    <dl class="figs" style={{ "--n": figures.length }}>
      {figures.map((each) => (
        <div class="fig" key={each.name}>
          <dt>{each.name}</dt>
          <dd class="v">
            {each.value}
            {each.unit && <small>{each.unit}</small>}
          </dd>
          <dd class="s">{each.more}</dd>
        </div>
      ))}
    </dl>
  );
}
