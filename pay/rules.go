package pay

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/x402"
)

// The rules of a policy. Those that need no counting choose among a challenge's requirements, and
// hold again for the row. The others are decided in the journal operation alone.

// refusedBy returns the refusal of a rule.
func refusedBy(rule, format string, args ...any) error {
	return &PolicyError{Rule: rule, Detail: fmt.Sprintf(format, args...)}
}

// refuses checks the row that is to be journaled by what will be signed.
func (pol Policy) refuses(row *Payment) error {
	return pol.allows(row.Door, pol.site(row.RequestURL), row.Task, row.Authorization.To, row.Authorization.Value)
}

// allows checks the rules that need no counting.
func (pol Policy) allows(door Door, at site, task string, payee x402.Address, amount x402.Amount) error {
	if !pol.opens(door) {
		return refusedBy("doors", "this key may not pay through the door %s; an operator opens it with purser limits KEY --door", door)
	}
	if err := pol.allowsHost(door, at); err != nil {
		return err
	}
	if err := pol.allowsPayee(payee); err != nil {
		return err
	}
	if above(amount, pol.MaxPayment) {
		return tooDear("per-payment", amount, pol.MaxPayment, "")
	}
	if pattern, b, ok := pol.hostBudget(at); ok && above(amount, b.MaxPayment) {
		return tooDear("host-per-payment", amount, b.MaxPayment, " to "+pattern)
	}
	if name, b, ok := pol.taskBudget(task); ok && above(amount, b.MaxPayment) {
		return tooDear("task-per-payment", amount, b.MaxPayment, " of task "+name)
	}
	return nil
}

func above(amount x402.Amount, most *Cap) bool {
	return most.Max() != nil && amount.Cmp(*most.Max()) > 0 && !failpoint.Off(failpoint.Limits)
}

func (pol Policy) opens(door Door) bool {
	return len(pol.Doors) == 0 || slices.Contains(pol.Doors, door) ||
		door == DoorTransport && slices.Contains(pol.Doors, DoorProxy)
}

// allowsHost checks the host rules. On REST purser dials no host, so the host is only the caller's
// claim. A rule on it is useless there without one on the payee.
func (pol Policy) allowsHost(door Door, at site) error {
	if !pol.namesHosts() {
		return nil
	}
	if door == DoorAPI && len(pol.AllowPayees) == 0 {
		return refusedBy("payees", "this key has rules for hosts, and on REST requestUrl is only the caller's word: "+
			"it may pay here once it also has allowed payees, or else through the proxy")
	}
	if at.name == "" && door != DoorAPI {
		return refusedBy("hosts", "the request's host is not known, and this key has rules for hosts")
	}
	matching := at.patterns()
	listed := func(pattern string) bool { return slices.Contains(matching, pattern) }
	switch {
	case slices.ContainsFunc(pol.DenyHosts, listed):
		return refusedBy("hosts", "%s is denied by the rules of this key", at)
	case len(pol.AllowHosts) == 0 || slices.ContainsFunc(pol.AllowHosts, listed):
		return nil
	case at.name == "":
		return refusedBy("hosts", "requestUrl is missing, and this key pays only certain hosts")
	}
	return refusedBy("hosts", "%s is not among the hosts that this key pays; an operator adds it with purser limits KEY --add-allow-host", at)
}

func (pol Policy) allowsPayee(payee x402.Address) error {
	switch {
	case slices.Contains(pol.DenyPayees, payee):
		return refusedBy("payees", "%s is denied by the rules of this key", payee)
	case len(pol.AllowPayees) > 0 && !slices.Contains(pol.AllowPayees, payee):
		return refusedBy("payees", "%s is not among the payees that this key pays; an operator adds it with purser limits KEY --add-allow-payee", payee)
	}
	return nil
}

// rate returns the limit on the payments that begin in a minute. They are counted only under one.
func (pol Policy) rate(row *Payment) []Limit {
	n := pol.PerMinute
	if n == nil || *n <= 0 {
		return nil
	}
	most := x402.NewAmount(uint64(*n))
	next := row.Created.UTC().Truncate(time.Minute).Add(time.Minute)
	return []Limit{{
		Reservation: Reservation{
			Counter: Counter("minute/" + row.KeyID + "/" + row.Created.UTC().Format("2006-01-02T15:04")), Amount: x402.NewAmount(1), Release: ReleaseNever,
		},
		Max: &most,
		Refusal: &PolicyError{
			Rule:    "per-minute",
			Detail:  fmt.Sprintf("%s in this minute, and no more may; the next may begin at %s UTC", begun(*n), next.Format("15:04")),
			Figures: &Figures{Price: row.Authorization.Value, Resets: next},
		},
	}}
}

// guards reports whether the price guard is on.
func (pol Policy) guards() bool { return pol.PriceGuard != nil && *pol.PriceGuard > 0 }

// pricePrefix begins the names of the counters of the price guard.
const pricePrefix = "price/"

// priceCounter names the last price that a key paid at an endpoint, whatever the query.
func priceCounter(keyID, asset, method, raw string) Counter {
	endpoint := HashOf(method, "") // on REST without a URL: an endpoint as well
	if u, err := url.Parse(raw); err == nil && u.Hostname() != "" {
		clean := path.Clean("/" + u.Path) // however it is spelt
		if strings.HasSuffix(u.Path, "/") && clean != "/" {
			clean += "/"
		}
		endpoint = HashOf(method, u.Scheme, siteIn(u).String(), clean)
	}
	return Counter(pricePrefix + keyID + "/" + asset + "/" + hex.EncodeToString(endpoint[:]))
}

// guard holds a payment that asks much more than the key's last settled one at this endpoint.
// Payments that begin before the first is settled are not held: MaxUnansweredPerHost and the limits
// on amounts bound them.
func (pol Policy) guard(v counters, row *Payment) error {
	if !pol.guards() || row.Price == "" {
		return nil
	}
	last, err := v.Counter(row.Price)
	if err != nil || last.IsZero() {
		return err
	}
	most := new(big.Int).Mul(last.Big(), big.NewInt(int64(*pol.PriceGuard)))
	if row.Authorization.Value.Big().Cmp(most) <= 0 {
		return nil
	}
	limit, _ := x402.AmountFromBig(most) // below the price, so it fits
	return &PolicyError{
		Rule: "price-guard",
		Detail: fmt.Sprintf("%s is more than %d times the %s that this endpoint was last paid; an operator lets it through with purser limits KEY --price-guard off",
			Money(row.Authorization.Value), *pol.PriceGuard, Money(last)),
		Figures: &Figures{Price: row.Authorization.Value, Limit: &limit},
	}
}
