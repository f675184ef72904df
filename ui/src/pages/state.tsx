// What stands where there is nothing to show yet, or no longer.
export function Missing({ trouble }: { trouble: string }) {
  return (
    <p class="missing t2" role={trouble ? "alert" : undefined}>
      {trouble || " "}
    </p>
  );
}
