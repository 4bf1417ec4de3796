// Dates as chat templates ask for them: Python's strftime, in English whatever the machine's language.

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
// prettier-ignore
const MONTHS = [
  "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
];

/** Formats local time. Codes: aAbBdHIjmMpSwyY, %% and F, T, D, e; "-" takes leading zeros off. Others stay as they are. */
export function strftime(date: Date, format: string): string {
  return format.replace(/%(-?)([aAbBdDeFHIjmMpSTwyY%])/g, (_, minus: string, code: string) => {
    const text = field(date, code);
    return minus === "" ? text : text.replace(/^0+(?=\d)/, "");
  });
}

// Text of one code; "%" for %%.
function field(date: Date, code: string): string {
  const two = (n: number): string => String(n).padStart(2, "0");
  const [day, month, hours] = [date.getDate(), date.getMonth(), date.getHours()];
  const fields: Readonly<Record<string, () => string>> = {
    a: () => DAYS[date.getDay()]!.slice(0, 3),
    A: () => DAYS[date.getDay()]!,
    b: () => MONTHS[month]!.slice(0, 3),
    B: () => MONTHS[month]!,
    d: () => two(day),
    D: () => strftime(date, "%m/%d/%y"),
    e: () => String(day).padStart(2, " "),
    F: () => strftime(date, "%Y-%m-%d"),
    H: () => two(hours),
    I: () => two(hours % 12 === 0 ? 12 : hours % 12),
    j: () => String(dayOfYear(date)).padStart(3, "0"),
    m: () => two(month + 1),
    M: () => two(date.getMinutes()),
    p: () => (hours < 12 ? "AM" : "PM"),
    S: () => two(date.getSeconds()),
    T: () => strftime(date, "%H:%M:%S"),
    w: () => String(date.getDay()),
    y: () => two(date.getFullYear() % 100),
    Y: () => String(date.getFullYear()),
  };
  return fields[code]?.() ?? "%";
}

/** 1 for the first of January. */
function dayOfYear(date: Date): number {
  const day = (d: number, month: number): number => Date.UTC(date.getFullYear(), month, d) / 864e5;
  return day(date.getDate(), date.getMonth()) - day(1, 0) + 1;
}
