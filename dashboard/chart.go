package dashboard

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/purserpay/purser/pay"
)

// Geometry of the chart. Widths are in percent, because only the browser knows the width. Heights are
// in pixels.
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
	if len(days) == 0 {
		return c
	}
	var total pay.Sum
	most := days[0]
	for _, d := range days {
		total.Add(d.Sum)
		if drawn(d.Sum) > drawn(most.Sum) {
			most = d
		}
	}
	c.Total = netOf(total)
	c.Text = fmt.Sprintf("Bar chart of the last %d days: %s in all", len(days), c.Total)
	if drawn(most.Sum) > 0 {
		c.Text += fmt.Sprintf(", most on %s with %s", most.Day.Format("2 January"), netOf(most.Sum))
	}
	c.Text += ". The same is in the table below."
	var top float64
	top, c.Grid = ticks(drawn(most.Sum))
	var shown []amount
	for i, d := range days {
		net := netOf(d.Sum)
		shown = append(shown, net)
		c.Bars = append(c.Bars, newBar(i, len(days), height(drawn(d.Sum), top), fmt.Sprintf("%s: %s, %s", d.Day.Format("Monday, 2 January"), net, payments(d.Count))))
		c.Rows = append(c.Rows, dayRow{
			Name: d.Day.Format("Mon, 2 Jan 2006"), Path: filter{period: period{From: d.Day, To: d.Day}}.path(""), Count: count(d.Count), Net: net,
		})
	}
	c.Bars[len(c.Bars)-1].Today = true
	slices.Reverse(c.Rows)
	c.Decimals = column(shown...)
	c.Marks = marks(days)
	return c
}

// drawn returns a sum after corrections in millionths of a dollar, for drawing and sorting.
func drawn(s pay.Sum) float64 {
	net, minus := s.Net()
	n, _ := new(big.Float).SetInt(net.Big()).Float64()
	if minus {
		return -n
	}
	return n
}

func newBar(i, n, h int, title string) bar {
	slot := 100 / float64(n)
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

func percent(p float64) string { return fmt.Sprintf("%.2f%%", p) }

// height returns the height of an amount in pixels. Any amount above 0 has at least 2 pixels.
func height(n, top float64) int {
	if n <= 0 {
		return 0
	}
	return max(2, int(n/top*(plotBottom-plotTop)))
}

// ticks returns the top value of the axis, a round number, and the grid lines.
func ticks(most float64) (top float64, lines []gridLine) {
	step := 1.0
	for i := 0; most > maxTicks*step; i++ {
		step *= []float64{2, 2.5, 2}[i%3] // 1, 2, 5, 10, 20, 50, …
	}
	n := int(math.Ceil(max(0, most) / step))
	for i := range n + 1 {
		y := plotBottom - (plotBottom-plotTop)*i/max(1, n)
		line := gridLine{Class: "grid", Y: y, TextY: y + 4, Text: strconv.FormatFloat(step*float64(i)/1e6, 'f', -1, 64)}
		if i == 0 {
			line.Class = "base"
		}
		lines = append(lines, line)
	}
	return step * float64(max(1, n)), lines
}

// marks labels some of the days: today, and then backwards in even steps.
func marks(days []pay.DaySum) []mark {
	every := max(1, (len(days)+3)/4)
	if len(days) <= 7 {
		every = 2
	}
	slot := 100 / float64(len(days))
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
