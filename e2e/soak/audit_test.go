package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// payment is a payment in the API's answers.
type payment struct {
	ID, State, Amount, PayTo, Transaction string
	Flags                                 []string
}

// totals holds the counts of the audit.
type totals struct {
	Payments, Settled, Void, Events, Transfers int
}

// audit compares the books with the chain: each settled payment has a transfer of its own, each transfer a payment, the spend
// events say the same, and nothing is open or disputed.
func (l *load) audit(ctx context.Context, keys []key) (sum totals, findings []string) {
	find := func(format string, args ...any) {
		if len(findings) < 50 {
			findings = append(findings, fmt.Sprintf(format, args...))
		}
	}
	owners := map[string]int{} // of transfers that no payment claims, by wallet
	for _, k := range keys {
		var settled, booked int
		err := pages(ctx, l, k, "/v1/payments", "payments", func(p payment) string {
			sum.Payments++
			switch {
			case p.State == "settled" && !slices.Contains(p.Flags, "disputed"):
				settled++
				t, ok := l.world.claim(p.Transaction)
				if !ok || t.from != k.wallet || fmt.Sprint(t.value) != p.Amount || t.to.String() != p.PayTo {
					find("payment %s is settled by %q, which is not its transfer", p.ID, p.Transaction)
				}
				if !slices.Contains(p.Flags, "confirmed") {
					find("payment %s is settled and not confirmed", p.ID)
				}
			case p.State == "void":
				sum.Void++
			case !slices.Contains(p.Flags, "refused"):
				find("payment %s is %s %v", p.ID, p.State, p.Flags)
			}
			return p.ID
		})
		if err != nil {
			find("payments of a key: %v", err)
		}
		err = pages(ctx, l, k, "/v1/spend", "events", func(e struct{ ID, Amount string }) string {
			if booked++; e.Amount != fmt.Sprint(price) {
				find("event %s of %s", e.ID, e.Amount)
			}
			return e.ID
		})
		if err != nil {
			find("spend events of a key: %v", err)
		}
		if booked != settled {
			find("%d spend events for %d settled payments of %s", booked, settled, k.wallet)
		}
		if paid := (funds - l.world.balance(k.wallet)) / price; int(paid) != settled {
			find("%s paid %d times, its books say %d", k.wallet, paid, settled)
		}
		sum.Settled, sum.Events = sum.Settled+settled, sum.Events+booked
	}
	l.world.mu.RLock()
	defer l.world.mu.RUnlock()
	sum.Transfers = len(l.world.transfers)
	for i := range l.world.transfers {
		if t := &l.world.transfers[i]; !t.claimed {
			owners[t.from.String()]++
		}
	}
	for owner, n := range owners {
		find("%d transfers of %s are nobody's payments", n, owner)
	}
	return sum, findings
}

// closed reports whether recovery is through: every settled payment was looked up on the chain, and none is open but those that
// were refused.
func (l *load) closed(t *testing.T) bool {
	t.Helper()
	all := true
	for _, k := range l.keys {
		if err := pages(t.Context(), l, k, "/v1/payments", "payments", func(p payment) string {
			all = all && (p.State == "void" || slices.Contains(p.Flags, "confirmed") || slices.Contains(p.Flags, "refused"))
			return p.ID
		}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// pages reads a list to its end. each gets an entry and returns its id.
func pages[T any](ctx context.Context, l *load, k key, path, field string, each func(T) string) error {
	for before := ""; ; {
		got, err := ask(ctx, l.plain, http.MethodGet, l.purser.URL(path+"?limit=500"+before), "", "X-Api-Key", k.secret)
		if err := want(got, err, http.StatusOK, false); err != nil {
			return err
		}
		var page map[string]json.RawMessage
		var list []T
		if err := json.Unmarshal(got.body, &page); err != nil {
			return err
		}
		if err := json.Unmarshal(page[field], &list); err != nil {
			return fmt.Errorf("%s of %s: %w", field, strings.TrimSpace(path), err)
		}
		if len(list) == 0 {
			return nil
		}
		for _, one := range list {
			before = "&before=" + each(one)
		}
	}
}
