package pay

import (
	"time"

	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
)

const (
	// quoteTime is the time for which the price of a quote bounds the purchase that follows.
	quoteTime = 5 * time.Minute
	// maxQuoted bounds the quotes that are remembered of a key.
	maxQuoted = 64
)

// quotes remembers the prices that quotes have named, in this process: by key and what is bought. A seller may
// name another price to a caller that asks for it than to one that buys.
type quotes struct {
	of *perclient.Memory[string, quoted]
}

type quoted struct {
	price money.Amount
	until time.Time
}

func newQuotes() quotes { return quotes{perclient.NewMemory[string, quoted](maxQuoted)} }

// asksFor names what a request asks for, whatever it costs; "": that is not known.
func (r Request) asksFor() string {
	switch {
	case r.HTTP != nil:
		body, _ := r.HTTP.Body.MarshalText()
		return r.HTTP.Method + " " + r.HTTP.URL + " " + string(body)
	case r.URL != "":
		return "rest " + r.URL
	}
	return ""
}

// named remembers the price of a quote.
func (q quotes) named(r Request, price money.Amount, now time.Time) {
	if what := r.asksFor(); what != "" {
		q.of.Set(r.Key.ID, what, quoted{price: price, until: now.Add(quoteTime)})
	}
}

// followed forgets the quote that a new payment has followed.
func (q quotes) followed(r Request) {
	if what := r.asksFor(); what != "" {
		q.of.Remove(r.Key.ID, what)
	}
}

// bounds refuses a price above the one that a quote has just named, unless the caller has named a bound itself.
func (q quotes) bounds(r Request, price money.Amount, now time.Time) error {
	if r.quoting || r.MaxAmount != nil {
		return nil
	}
	last := q.of.Get(r.Key.ID, r.asksFor())
	if !now.Before(last.until) || price.Cmp(last.price) <= 0 {
		return nil
	}
	return refusal(policy.TooDear("max-amount", price, policy.CapOf(last.price), ", which a quote has named a moment ago; ask for a quote again, or send Purser-Max-Amount"), price)
}
