package cli

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/bookkeeping"
	"github.com/purserpay/purser/policy"
)

// groupings are the values of 'purser spend --by'.
var groupings = []string{"host", "tool", "task", "key", "day"}

// group sums up spend events that have something in common.
type group struct {
	Name   string   `json:"name"`             // the host, the tool, the task, the day, or the key's label; "" has none
	KeyID  string   `json:"key_id,omitempty"` // by key
	Amount string   `json:"amount"`           // in the smallest unit; negative if more was taken back
	Count  int      `json:"count"`            // of payments; corrections are none
	Share  *float64 `json:"share"`            // of the total, from 0 to 1; nil without a total
	// Undelivered holds the payments of Count that brought nothing.
	Undelivered nothings `json:"undelivered"`

	nothing big.Int
	sum     big.Int
}

// grouped holds the output of 'purser spend --by --json'.
type grouped struct {
	By     string   `json:"by"`
	Since  string   `json:"since,omitempty"`
	Until  string   `json:"until,omitempty"`
	Groups []*group `json:"groups"`
	Count  int      `json:"count"`
	Total  string   `json:"total"`
	// Undelivered holds the payments of Count that brought nothing.
	Undelivered nothings `json:"undelivered"`
	// Withdrawn holds the withdrawals, which are in no group and not in Total.
	Withdrawn withdrawn `json:"withdrawn"`
}

// groupOf returns what an event has in common with others.
func groupOf(by string, e adminapi.SpendEvent) group {
	switch by {
	case "host":
		return group{Name: e.Host}
	case "tool":
		return group{Name: policy.ToolOf(e.RequestURL)}
	case "task":
		return group{Name: e.Task}
	case "key":
		return group{Name: e.KeyLabel, KeyID: e.KeyID}
	}
	return group{Name: e.Created.UTC().Format(time.DateOnly)}
}

// spendBy prints the sums of what a list of spending has.
func spendBy(a *asking, by string) error {
	if !slices.Contains(groupings, by) {
		return fmt.Errorf("--by %q is none of %s", by, strings.Join(groupings, ", "))
	}
	if a.most > 0 {
		return fmt.Errorf("--by sums up everything: --limit does not go with it")
	}
	out := grouped{By: by, Since: a.days.since, Until: a.days.until, Groups: []*group{}}
	known, total, nothing, moved := map[string]*group{}, new(big.Int), new(big.Int), new(big.Int)
	a.ask.Set("limit", strconv.Itoa(adminapi.MaxPage))
	for next := "begun"; next != ""; {
		var page []adminapi.SpendEvent
		var err error
		if page, next, err = fetchPage[adminapi.SpendEvent](a.Context(), a.client, "spend", a.ask); err != nil {
			return err
		}
		a.ask.Set("before", next)
		for _, e := range page {
			amount, ok := new(big.Int).SetString(e.Amount, 10)
			if !ok {
				return a.client.misunderstood(fmt.Errorf("amount %q", e.Amount))
			}
			if e.Kind == bookkeeping.Withdrawal {
				out.Withdrawn.Count += bookedOnce(e)
				moved.Add(moved, amount)
				continue
			}
			mine := groupOf(by, e)
			g := known[mine.KeyID+"\n"+mine.Name]
			if g == nil {
				g = &mine
				known[mine.KeyID+"\n"+mine.Name] = g
				out.Groups = append(out.Groups, g)
			}
			g.sum.Add(&g.sum, amount)
			total.Add(total, amount)
			if e.Corrects == "" {
				g.Count++
				out.Count++
			}
			if broughtNothing(e) {
				g.Undelivered.Count++
				g.nothing.Add(&g.nothing, amount)
				out.Undelivered.Count++
				nothing.Add(nothing, amount)
			}
		}
	}
	out.Total, out.Undelivered.Amount, out.Withdrawn.Amount = total.String(), nothing.String(), moved.String()
	for _, g := range out.Groups {
		g.Amount, g.Undelivered.Amount = g.sum.String(), g.nothing.String()
		if total.Sign() > 0 {
			share, _ := new(big.Rat).SetFrac(&g.sum, total).Float64()
			g.Share = &share
		}
	}
	slices.SortFunc(out.Groups, func(x, y *group) int {
		if by == "day" {
			return cmp.Compare(y.Name, x.Name)
		}
		return cmp.Or(y.sum.Cmp(&x.sum), cmp.Compare(x.Name, y.Name), cmp.Compare(x.KeyID, y.KeyID))
	})
	return out.print(a)
}

func (out grouped) print(a *asking) error {
	if a.json.on {
		return show(a.OutOrStdout(), a.json, out, nil)
	}
	var rows rowWriter
	if a.csv {
		rows = csvTable{csv.NewWriter(a.OutOrStdout())}
		rows.row(out.By, "key_id", "amount", "count", "share", "undelivered_count", "undelivered_amount")
	} else {
		rows = a.newColumns([]column{{head: strings.ToUpper(out.By), holds: textCell}, {head: "USDC"}, {head: "PAYMENTS"}, {head: "SHARE"}, {head: "NOT DELIVERED"}})
	}
	for _, g := range out.Groups {
		if a.csv {
			share := ""
			if g.Share != nil {
				share = strconv.FormatFloat(*g.Share, 'f', 4, 64)
			}
			rows.row(g.Name, g.KeyID, signedUnits(g.Amount), strconv.Itoa(g.Count), share, strconv.Itoa(g.Undelivered.Count), signedUnits(g.Undelivered.Amount))
			continue
		}
		rows.row(orDash(cmp.Or(g.Name, g.KeyID)), signedUnits(g.Amount), strconv.Itoa(g.Count), g.percent(), g.undelivered())
	}
	if err := rows.Flush(); err != nil || a.csv {
		return err
	}
	w := bufio.NewWriter(a.OutOrStdout())
	fmt.Fprintf(w, "%s, %s USDC%s\n%s%s", paymentsOf(out.Count), signedUnits(out.Total), period(a.days), out.Undelivered, out.Withdrawn)
	return w.Flush()
}

// undelivered is the rate of payments that brought nothing, for people.
func (g *group) undelivered() string {
	if g.Undelivered.Count == 0 {
		return unlimited
	}
	return fmt.Sprintf("%d of %d", g.Undelivered.Count, g.Count)
}

// percent is a share for people.
func (g *group) percent() string {
	if g.Share == nil {
		return unlimited
	}
	return strconv.FormatFloat(*g.Share*100, 'f', 1, 64) + " %"
}
