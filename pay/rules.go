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

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
)

// The rules of a policy. Those that need no counting choose among a challenge's requirements, and
// hold again for the row. The others are decided in the journal operation alone.

// refusedBy returns the refusal of a rule.
func refusedBy(rule, format string, args ...any) error {
	return &PolicyError{Rule: rule, Detail: fmt.Sprintf(format, args...)}
}

// refuses checks the row that is to be journaled by what will be signed.
func refuses(pol policy.Policy, row *Payment) error {
	return row.tooDear(pol.Allows(row.Door, pol.Site(row.RequestURL), row.Task, row.Authorization.To, row.Authorization.Value))
}

// tooDear turns what a policy says of all that a payment can take into an error; nil: it says nothing.
func (p *Payment) tooDear(r *policy.Refusal) error {
	if gas := p.gas(); r != nil && r.Limit != nil && !gas.IsZero() {
		r.Detail += fmt.Sprintf("; up to %s of it are for gas, which the wallet pays beside the price", money.Text(gas))
	}
	return refusal(r, p.Authorization.Value)
}

// bears refuses a new payment that could take more than the request allows, because of gas.
func (r Request) bears(row *Payment) error {
	most := r.MaxAmount
	if most == nil || row.Authorization.Value.Cmp(*most) <= 0 {
		return nil
	}
	return row.tooDear(policy.TooDear("max-amount", row.Authorization.Value, policy.CapOf(*most), ", which the request itself sets"))
}

// refusal turns what a policy says of a price into an error; nil: it says nothing.
func refusal(r *policy.Refusal, price money.Amount) error {
	if r == nil {
		return nil
	}
	e := &PolicyError{Rule: r.Rule, Detail: r.Detail}
	if r.Limit != nil {
		e.Figures = &Figures{Price: price, Limit: r.Limit}
	}
	return e
}

// MaxUnansweredPerHost bounds the payments of one key to one host that are open,
// unanswered and still valid (docs/design/surfaces.md).
const MaxUnansweredPerHost = 20

// PolicyOf returns the policy in force for a key at a door now: its own, and the configured defaults
// for unset fields. On REST the defaults hold for the operator's keys only. The result shares lists
// and maps, so callers must not change it.
func (p *Payer) PolicyOf(k Key, door policy.Door) policy.Policy { return p.policyAt(k, door, p.now()) }

// policyAt is PolicyOf at a time, by the raise that holds then.
func (p *Payer) policyAt(k Key, door policy.Door, at time.Time) policy.Policy {
	var own policy.Policy
	if k.Policy != nil {
		own = *k.Policy
	}
	if door == policy.DoorAPI && !k.Operator {
		return own.At(at)
	}
	return own.Or(p.ruling().DefaultPolicy).At(at)
}

// countsHours reports whether the spending of a key is counted by the hour, at whichever door it pays.
func (p *Payer) countsHours(k Key) bool {
	return k.Policy != nil && k.Policy.CountsHours() || p.ruling().DefaultPolicy.CountsHours()
}

// Follow makes the deployment's limits and plans of another configuration hold for the calls of this one, too: after
// a reload, calls may be in flight for long, above all those that wait for a person. nil ends that.
func (p *Payer) Follow(newer *Payer) { p.newer.Store(newer) }

// ruling returns the options whose limits and plans hold.
func (p *Payer) ruling() *Options {
	if newer := p.newer.Load(); newer != nil {
		return &newer.opts
	}
	return &p.opts
}

// Raises names the limits through which a key could pay more with another policy of its own than with
// its present one, now or later, at any door; none: it could pay no more. A nil policy leaves the key the
// defaults.
func (p *Payer) Raises(k Key, pol *policy.Policy) []string {
	next := k
	next.Policy = pol
	moments := []time.Time{p.now()} // at which one of the policies changes
	for _, of := range []*policy.Policy{k.Policy, pol} {
		if of != nil && of.Raise.Holds(moments[0]) {
			moments = append(moments, of.Raise.Until)
		}
	}
	var all []string
	for _, door := range []policy.Door{policy.DoorProxy, policy.DoorTransport, policy.DoorAPI} {
		for _, at := range moments {
			for _, name := range p.policyAt(next, door, at).PermitsMore(p.policyAt(k, door, at)) {
				if !slices.Contains(all, name) {
					all = append(all, name)
				}
			}
		}
	}
	return all
}

// rate returns the limit on the payments that begin in a minute. They are counted only under one.
func rate(pol policy.Policy, row *Payment) []Limit {
	n := pol.PerMinute
	if n == nil || *n <= 0 {
		return nil
	}
	most := money.New(uint64(*n))
	next := row.Created.UTC().Truncate(time.Minute).Add(time.Minute)
	return []Limit{{
		Reservation: Reservation{
			Counter: Counter("minute/" + row.KeyID + "/" + row.Created.UTC().Format("2006-01-02T15:04")), Amount: money.New(1), Release: ReleaseNever,
		},
		Max: &most,
		Refusal: &PolicyError{
			Rule:    "per-minute",
			Detail:  fmt.Sprintf("%s in this minute, and no more may; the next may begin at %s UTC", begun(*n), next.Format("15:04")),
			Figures: &Figures{Price: row.Authorization.Value, Resets: next},
		},
	}}
}

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
		endpoint = HashOf(method, u.Scheme, policy.SiteIn(u).String(), clean)
	}
	return Counter(pricePrefix + keyID + "/" + asset + "/" + hex.EncodeToString(endpoint[:]))
}

// guard holds a payment that asks much more than the key's last settled one at this endpoint.
// Payments that begin before the first is settled are not held: MaxUnansweredPerHost and the limits
// on amounts bound them.
func guard(pol policy.Policy, v Counters, row *Payment) error {
	if !pol.Guards() || row.Price == "" {
		return nil
	}
	last, err := v.Counter(row.Price)
	if err != nil || last.IsZero() {
		return err
	}
	most := new(big.Int).Mul(last.Big(), big.NewInt(int64(*pol.PriceGuard)))
	if row.Terms.Amount.Big().Cmp(most) <= 0 { // a fee is no price
		return nil
	}
	limit, _ := money.FromBig(most) // below the price, so it fits
	return &PolicyError{
		Rule: "price-guard",
		Detail: fmt.Sprintf("%s is more than %d times the %s that this endpoint was last paid; an operator lets it through with purser limits KEY --price-guard off",
			money.Text(row.Terms.Amount), *pol.PriceGuard, money.Text(last)),
		Figures: &Figures{Price: row.Terms.Amount, Limit: &limit},
	}
}
