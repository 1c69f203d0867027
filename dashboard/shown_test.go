package dashboard

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

func TestAmountsAreExact(t *testing.T) {
	t.Parallel()
	for micros, want := range map[string]string{
		"0": "0 USDC", "1": "0.000001 USDC", "10000": "0.01 USDC", "1500000": "1.5 USDC", "1234567890123": "1,234,567.890123 USDC",
		"115792089237316195423570985008687907853269984665640564039457584007913129639935": "115,792,089,237,316,195,423,570,985,008,687,907,853,269,984,665,640,564,039,457,584,007,913,129.639935 USDC",
	} {
		a, err := money.Parse(micros)
		if err != nil {
			t.Fatal(err)
		}
		if got := amountOf(a, false, currency).String(); got != want {
			t.Errorf("%s: %q, want %q", micros, got, want)
		}
	}
	if got := amountOf(money.New(10000), true, currency).String(); got != "−0.01 USDC" {
		t.Errorf("a correction: %q", got)
	}
	if got := column(amount{Fraction: ".5"}, amount{Fraction: ".0001"}, amount{}); got != "d4" {
		t.Errorf("class of a column: %q", got)
	}
}

func TestSites(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]site{
		"https://api.example.com":                     {Text: "api.example.com", Link: "https://api.example.com", Host: "api.example.com"},
		"https://api.example.com/":                    {Text: "api.example.com", Link: "https://api.example.com/", Host: "api.example.com"},
		"http://u:p@api.example.com:8080/a%2Fb?q=1#f": {Text: "api.example.com:8080/a%2Fb?q=1", Link: "http://u:p@api.example.com:8080/a%2Fb?q=1#f", Host: "api.example.com:8080", Rest: "/a%2Fb?q=1"},
		"javascript:alert(1)":                         {Text: "javascript:alert(1)"},
		"//evil.example.com/":                         {Text: "//evil.example.com/"},
		"https:///path":                               {Text: "https:///path"},
		"":                                            {Text: "no address given"},
		"https://a.example/" + strings.Repeat("x", 500): {Text: "a.example/" + strings.Repeat("x", 109) + "…", Host: "a.example", Rest: "/" + strings.Repeat("x", 118) + "…"},
		"ftp://a.example/\u202e":                        {Text: "ftp://a.example/\uFFFD"},
	} {
		want.Host = cmp.Or(want.Host, want.Text)
		got := siteOf(raw)
		got.Full = ""
		if got != want {
			t.Errorf("%.60s: %+v, want %+v", raw, got, want)
		}
	}
}

// The axis has round steps and reaches the highest bar. No bar leaves the plot.
func TestTicks(t *testing.T) {
	t.Parallel()
	list := []float64{math.MaxUint64}
	for n := 1.0; n < math.MaxInt64/7; n = n*7 + 3 {
		list = append(list, n)
	}
	for _, most := range list {
		top, lines := ticks(most)
		if top < most || 2*most < top && most > 10 {
			t.Errorf("most %f: the axis ends at %f", most, top)
		}
		if len(lines) < 2 || len(lines) > maxTicks+1 || lines[0].Text != "0" || lines[0].Y != plotBottom || lines[len(lines)-1].Y != plotTop {
			t.Errorf("most %f: lines %+v", most, lines)
		}
		for i := 2; i < len(lines); i++ {
			low, err1 := strconv.ParseFloat(strings.ReplaceAll(lines[i-1].Text, ",", ""), 64)
			high, err2 := strconv.ParseFloat(strings.ReplaceAll(lines[i].Text, ",", ""), 64)
			if err1 != nil || err2 != nil || low >= high || lines[i].Y >= lines[i-1].Y || len(lines[i].Text) < len(lines[i-1].Text) {
				t.Errorf("most %f: %q is above %q", most, lines[i].Text, lines[i-1].Text)
			}
		}
		for _, n := range []float64{most, 1, 0} {
			if h := height(n, top); h < 0 || h > plotBottom-plotTop || (h == 0) != (n == 0) {
				t.Errorf("%f of %f is %d high", n, top, h)
			}
		}
	}
	if _, lines := ticks(70_000); lines[3].Text != "0.06" {
		t.Errorf("lines up to 7 cents: %+v", lines)
	}
}

func TestDaysThatCorrectMoreThanTheySpend(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	c := newChart([]pay.DaySum{
		{Day: day, Sum: pay.Sum{Count: 1, Amount: money.New(50000)}},
		{Day: day.AddDate(0, 0, 1), Sum: pay.Sum{Corrected: money.New(50000)}},
	}, chartView{}, nil)
	if len(c.Bars[1].Parts) != 0 || c.Rows[0].Net.String() != "−0.05 USDC" || c.Total.String() != "0 USDC" || len(c.Bars[0].Parts) != 1 {
		t.Errorf("chart: %+v", c)
	}
	if empty := newChart(nil, chartView{}, nil); len(empty.Bars) != 0 {
		t.Errorf("chart of no days: %+v", empty)
	}
}

func TestSharesAreSortedByWhatIsLeft(t *testing.T) {
	t.Parallel()
	sum := func(name string, amount, corrected uint64) pay.NameSum {
		return pay.NameSum{Name: name, Sum: pay.Sum{Count: 1, Amount: money.New(amount), Corrected: money.New(corrected)}}
	}
	s := newShares("x", "", "", "", "", []pay.NameSum{sum("a", 900, 890), sum("b", 500, 0), sum("", 400, 0), sum("c", 1, 3), sum(pay.RestName, 9999, 0)}, func(n string) string { return "/" + n })
	var got []string
	for _, r := range s.Rows {
		got = append(got, r.Name+r.Path)
	}
	if want := "b/b without one a/a c/c all others"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	if s.Rows[0].Mille != 1000 || s.Rows[2].Mille != 20 || s.Rows[3].Mille != 0 || !s.Rows[3].Net.Minus {
		t.Errorf("rows: %+v", s.Rows)
	}
	if s := newShares("x", "", "", "", "nothing", []pay.NameSum{sum("", 4, 0)}, nil); len(s.Rows) != 0 {
		t.Errorf("only what has no name: %+v", s)
	}
}

func TestWhatIsShownOnceIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	o := onceShown{waits: map[onceFor]onceSecret{}}
	for i := range onceMost + 5 {
		o.put(onceFor{"s", "a", string(rune(i))}, onceSecret{secret: "s"}, now)
	}
	if len(o.waits) != onceMost {
		t.Errorf("%d keys wait", len(o.waits))
	}
	if _, ok := o.take(onceFor{"s", "b", "0"}, now); ok {
		t.Error("somebody else's key")
	}
	if _, ok := o.take(onceFor{"s", "a", "\x01"}, now.Add(onceTime)); ok || len(o.waits) != 0 {
		t.Error("a key waits longer than its time")
	}
}

func TestPagesParse(t *testing.T) {
	t.Parallel()
	all := loadPages(loadAssets())
	for name, parsed := range all {
		if parsed() == nil {
			t.Errorf("%s has no template", name)
		}
	}
	if len(all) < 20 {
		t.Errorf("%d pages", len(all))
	}
}
