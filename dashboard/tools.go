package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/purserpay/purser/pay"
)

// byTool is the value of ?by= that has Spend add up what each tool cost.
const byTool = "tool"

// toolsShown bounds the tools of a page.
const toolsShown = 100

// toolList holds what tools of MCP cost: of the payments of a filter, the most expensive first.
type toolList struct {
	Caption, Decimals string
	Rows              []toolRow
	Note              string // what is missing; "": nothing
}

type toolRow struct {
	Name, Path         string // Path leads to the payments for the tool
	Count, Undelivered string // Undelivered is "" without such a payment
	Net                amount
	Mille              int
}

// tools adds up by tool what a filter selects, of a bounded number of events: the newest ones.
func (d *dashboard) tools(ctx context.Context, v visit, f filter) (toolList, error) {
	q, err := f.spendQuery("", 1)
	if err != nil {
		return toolList{}, err
	}
	total, err := d.Books.SumSpendIn(ctx, v.scope(), q)
	if err != nil {
		return toolList{}, err
	}
	sums := total.Tools
	slices.SortFunc(sums, func(a, b pay.ToolSum) int {
		switch pay.RestName { // comes last
		case a.Tool:
			return 1
		case b.Tool:
			return -1
		}
		return cmp.Or(cmp.Compare(drawn(b.Sum), drawn(a.Sum)), strings.Compare(a.Tool, b.Tool))
	})
	var list toolList
	for len(sums) > toolsShown {
		last := sums[len(sums)-1]
		sums = sums[:len(sums)-1]
		rest := &sums[len(sums)-1]
		rest.Tool, rest.Undelivered = pay.RestName, rest.Undelivered+last.Undelivered
		rest.Add(last.Sum)
	}
	var shown []amount
	for _, s := range sums {
		row := toolRow{Name: cut(s.Tool, maxTitle), Count: count(s.Count), Net: netOf(s.Sum), Mille: ratio(s.Sum, drawn(sums[0].Sum))}
		row.Net.Currency = "" // the column's title has it
		if s.Undelivered > 0 {
			row.Undelivered = count(s.Undelivered) + " of " + count(s.Count)
		}
		if s.Tool == pay.RestName {
			row.Name = "all others"
		} else {
			of := f
			of.By, of.Host = "", s.Tool
			row.Path = of.on(paymentsPath, "")
		}
		list.Rows, shown = append(list.Rows, row), append(shown, row.Net)
	}
	list.Decimals, list.Note = column(shown...), sumsOf("", total).Note
	return list, nil
}
