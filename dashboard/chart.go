package dashboard

import (
	"fmt"
	"math/big"
	"slices"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Geometry of the chart. Widths are in hundredths of a percent, because only the browser knows the
// width. Heights are in pixels.
const (
	plotTop    = 10
	plotBottom = 170
	marksY     = plotBottom + 20
	maxTicks   = 4
)

// chart shows spend by day. A bar shows a day's spend minus its corrections. The table beside it
// has the exact sums.
type chart struct {
	Length     int
	Total      amount
	Text       string // description for screen readers
	Grid       []gridLine
	Bars       []bar
	Marks      []mark
	Rows       []dayRow
	Decimals   string
	MarksY     int
	PlotHeight int
}

type gridLine struct {
	Class, Text string
	Y, TextY    int
}

type bar struct {
	Title            string
	X, Width         string // in percent
	SlotX, SlotWidth string
	Y, Height        int // in pixels; height 0: no spend
	Today            bool
}

type mark struct{ X, Anchor, Text string }

type dayRow struct {
	Name, Path, Count string
	Net               amount
}

func newChart(days []pay.DaySum) chart {
	c := chart{Length: len(days), MarksY: marksY, PlotHeight: plotBottom}
	var total pay.Sum
	nets := make([]x402.Amount, len(days))
	most := 0
	for i, d := range days {
		total.Add(d.Sum)
		if net, minus := d.Net(); !minus {
			nets[i] = net
		}
		if nets[i].Cmp(nets[most]) > 0 {
			most = i
		}
	}
	c.Total = netOf(total)
	c.Text = fmt.Sprintf("Bar chart of the last %d days: %s in all", len(days), c.Total)
	if len(days) > 0 && !nets[most].IsZero() {
		c.Text += fmt.Sprintf(", most on %s with %s", days[most].Day.Format("2 January"), netOf(days[most].Sum))
	}
	c.Text += ". The same is in the table below."
	if len(days) == 0 {
		return c
	}
	top, grid := ticks(nets[most].Big())
	c.Grid = grid
	shown := make([]amount, 0, len(days))
	for i, d := range days {
		net := netOf(d.Sum)
		shown = append(shown, net)
		c.Bars = append(c.Bars, newBar(i, len(days), height(nets[i].Big(), top), fmt.Sprintf("%s: %s, %s", d.Day.Format("Monday, 2 January"), net, payments(d.Count))))
		c.Rows = append(c.Rows, dayRow{
			Name: d.Day.Format("Mon, 2 Jan 2006"), Path: filter{From: d.Day, To: d.Day}.path(""), Count: count(d.Count), Net: net,
		})
	}
	c.Bars[len(c.Bars)-1].Today = true
	slices.Reverse(c.Rows)
	c.Decimals = column(shown...)
	c.Marks = marks(days)
	return c
}

func newBar(i, n, h int, title string) bar {
	slot := 10000 / float64(n)
	gap := 0.14 // of a slot, on either side
	if n > 60 {
		gap = 0.08
	}
	return bar{
		Title: title, Y: plotBottom - h, Height: h,
		SlotX: percent(slot * float64(i)), SlotWidth: percent(slot),
		X: percent(slot * (float64(i) + gap)), Width: percent(slot * (1 - 2*gap)),
	}
}

func percent(hundredths float64) string { return fmt.Sprintf("%.2f%%", hundredths/100) }

// height returns the height of an amount in pixels. Any amount above 0 has at least 2 pixels.
func height(n, top *big.Int) int {
	if n.Sign() <= 0 {
		return 0
	}
	h := new(big.Int).Mul(n, big.NewInt(plotBottom-plotTop))
	return max(2, int(h.Div(h, top).Int64()))
}

// ticks returns the top value of the axis, a round number, and the grid lines.
func ticks(most *big.Int) (top *big.Int, lines []gridLine) {
	if most.Sign() <= 0 {
		return big.NewInt(1), []gridLine{{Class: "base", Y: plotBottom, TextY: plotBottom + 4, Text: "0"}}
	}
	step := big.NewInt(1)
	steps := func() *big.Int { // steps up to the largest value
		n := new(big.Int).Add(most, step)
		n.Sub(n, big.NewInt(1))
		return n.Div(n, step)
	}
	limit := big.NewInt(maxTicks)
	for i := 0; steps().Cmp(limit) > 0; i++ {
		if i%3 == 1 { // 1, 2, 5, 10, 20, 50, …
			step.Mul(step, big.NewInt(5)).Div(step, big.NewInt(2))
		} else {
			step.Mul(step, big.NewInt(2))
		}
	}
	n := int(steps().Int64())
	top = new(big.Int).Mul(step, big.NewInt(int64(n)))
	for i := 0; i <= n; i++ {
		y := plotBottom - (plotBottom-plotTop)*i/n
		line := gridLine{Class: "grid", Y: y, TextY: y + 4}
		if i == 0 {
			line.Class = "base"
		}
		if a, ok := x402.AmountFromBig(new(big.Int).Mul(step, big.NewInt(int64(i)))); ok {
			line.Text = a.Format(decimals)
		}
		lines = append(lines, line)
	}
	return top, lines
}

// marks labels some of the days: today, and then backwards in even steps.
func marks(days []pay.DaySum) []mark {
	every := max(1, (len(days)+3)/4)
	if len(days) <= 7 {
		every = 2
	}
	slot := 10000 / float64(len(days))
	var list []mark
	for i := len(days) - 1; i >= 0; i -= every {
		m := mark{X: percent(slot * (float64(i) + 0.5)), Anchor: "middle", Text: days[i].Day.Format("2 Jan")}
		switch {
		case i == len(days)-1 && len(days) > 7:
			m.X, m.Anchor = "100%", "end"
		case i == 0 && len(days) > 7:
			m.X, m.Anchor = "0%", "start"
		}
		list = append(list, m)
	}
	return list
}
