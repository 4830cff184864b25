/** The shortest decimal number that is in f32 what `value` is there. */
export function shortestDecimal(value: number): number {
  const single = Math.fround(value);
  for (let digits = 1; digits < 9; digits += 1) {
    const rounded = Number(single.toPrecision(digits));
    if (Math.fround(rounded) === single) return rounded;
  }
  return single;
}
