package bookkeeping

import "testing"

func TestInertCells(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", "|cmd", "%x", "＝1"} {
		if Inert(s) != "'"+s {
			t.Errorf("%q is left as it is", s)
		}
	}
	for s, want := range map[string]string{"a;=1": "a;'=1", "a\t@b": "a\t'@b", "\n=1": "'\n'=1", "a;b;-1;\xff": "a;b;'-1;\xff", ";;+": ";;'+"} {
		if got := Inert(s); got != want {
			t.Errorf("%q becomes %q, want %q", s, got, want)
		}
	}
	for _, s := range []string{"", "a=1", "https://x/=1", "0x12", "'quoted", "a;b", "\xff"} {
		if Inert(s) != s {
			t.Errorf("%q becomes %q", s, Inert(s))
		}
	}
}
