package pay

import (
	"context"
	"encoding/hex"
	"time"
)

// RuleRedirected names the rule of the [PolicyError] that refuses a payment on a way of redirects.
const RuleRedirected = "redirected"

const (
	// RedirectTime bounds how long a client has to follow the redirect of a paid answer, from the end
	// of its body.
	RedirectTime = time.Minute
	// redirectSlack is added to the marks of redirects. A request is judged by the time of its arrival,
	// and a seller may send the 402 so much later.
	redirectSlack = 10 * time.Minute
	// maxRedirected bounds the payments of one way of redirects. A client may ask for more than one.
	maxRedirected = 2
)

// Redirects places a request among the redirects of paid answers: see docs/design/calls.md. The store
// keeps a mark of each place that they lead to, so that other nodes and the next configuration know it.
type Redirects struct {
	// Target names the mark of the URL that the client asked for, Site that of the paid site, and
	// Anywhere that of all sites.
	Target, Site, Anywhere string
	Arrived                time.Time
	// Follows: a client's library may have made the request by itself, because it followed a redirect.
	Follows bool
	// Known: the client asked for a purchase of its own, or its key has bought at this URL before.
	Known bool
	// Own returns the mark that this process has made under a name, and when; zero: none.
	Own func(mark string) (m NoticeMark, made time.Time)

	// AtSite and Everywhere count the payments that were made on the request's way before. Decide finds
	// them.
	AtSite, Everywhere uint64
}

// RedirectTarget names the mark of a URL that the answer to a key's payment leads to.
func RedirectTarget(keyID, where string) string { return redirectMark("target", keyID, where) }

// RedirectSite names the mark of a site that has answered a key's payment with a redirect. A client
// follows it with a method.
func RedirectSite(keyID, method, site string) string {
	return redirectMark("site", keyID, method, site)
}

// RedirectAnywhere names the mark of a redirect to another site. purser may not see what comes between.
func RedirectAnywhere(keyID, method string) string { return redirectMark("anywhere", keyID, method) }

// RedirectJob names the marks that have, in their counts, the two halves of the id of the payment of a job that can be
// asked about at a target.
func RedirectJob(target string) (first, second string) {
	return redirectMark("job", "1", target), redirectMark("job", "2", target)
}

func redirectMark(parts ...string) string {
	h := HashOf(append([]string{"redirect"}, parts...)...)
	return "redirect/" + hex.EncodeToString(h[:])
}

// RedirectMark makes a mark that ends RedirectTime after a moment, on a way with so many payments.
func RedirectMark(from time.Time, payments uint64) NoticeMark {
	return NoticeMark{Count: payments, Until: from.UTC().Round(0).Add(RedirectTime + redirectSlack)}
}

// Leads reports whether a mark of redirects was in force when a request arrived.
func (m NoticeMark) Leads(arrived time.Time) bool { return m.Until.After(arrived.Add(redirectSlack)) }

// Marks names what the decision asks for.
func (r *Redirects) Marks() []string {
	if r == nil {
		return nil
	}
	return []string{r.Target, r.Site, r.Anywhere}
}

// redirected refuses a payment to which the answer to an earlier one has led the client.
func (b *Begin) redirected(v BeginView, _ *judged) error {
	r := b.Redirects
	if r == nil {
		return nil
	}
	r.AtSite, r.Everywhere = 0, 0
	here, err := r.payments(v, r.Target)
	switch {
	case err != nil:
		return err
	case here > 0:
		return &PolicyError{Rule: RuleRedirected, Detail: RedirectedHere}
	case !r.Follows:
		return nil
	}
	site, err := r.payments(v, r.Site)
	if err != nil {
		return err
	}
	all, err := r.payments(v, r.Anywhere)
	switch {
	case err != nil:
		return err
	case site >= maxRedirected:
		return &PolicyError{Rule: RuleRedirected, Detail: redirectedTwice}
	case site > 0 && !r.Known:
		return &PolicyError{Rule: RuleRedirected, Detail: redirectedBeside}
	case all >= maxRedirected && !r.Known:
		return &PolicyError{Rule: RuleRedirected, Detail: redirectedAway}
	}
	r.AtSite, r.Everywhere = site, all
	return nil
}

// payments returns the number of payments on the way whose mark was in force when the request arrived;
// 0: none was. A mark that this process made after that says nothing of the request.
func (r *Redirects) payments(v BeginView, name string) (uint64, error) {
	m, err := v.Mark(name)
	if err != nil {
		return 0, err
	}
	if own, made := r.Own(name); !own.Until.IsZero() && !own.Until.Before(m.Until) {
		if m = own; made.After(r.Arrived) {
			return 0, nil
		}
	}
	if !m.Leads(r.Arrived) {
		return 0, nil
	}
	return m.Count, nil
}

// These tell a client why a payment on a way of redirects is not made.
const (
	// RedirectedHere tells it of a place to which an answer has led.
	RedirectedHere = "the answer to an earlier payment led here by a redirect, and one request is paid once; " +
		"to buy this as well, ask again a minute after that answer"
	redirectedBeside = "a paid answer of this site was a redirect less than a minute ago, and this may be where it led; " +
		"to buy this as well, send an Idempotency-Key, or Purser-Again: new, or ask again a minute after that answer"
	redirectedTwice = "two payments in a row to this site were answered by redirects, and this may be where they led; " +
		"to buy this as well, send an Idempotency-Key, or ask again a minute after the last answer"
	redirectedAway = "two paid answers in a row led to other sites, and this may be where they led; " +
		"to buy this as well, send an Idempotency-Key, or Purser-Again: new, or ask again a minute after the last answer"
)

// NoteRedirect keeps marks of redirects of a key's paid answers. One without an Until is forgotten.
func (p *Payer) NoteRedirect(ctx context.Context, keyID string, marks map[string]NoticeMark, now time.Time) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.background.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redirectPatience)
	defer cancel()
	return p.store.SetMarks(ctx, keyID, marks, now)
}

// redirectPatience bounds the wait for the store, because a client waits for its answer.
const redirectPatience = 5 * time.Second

// RedirectMark finds the mark of a place; zero: there is none.
func (p *Payer) RedirectMark(ctx context.Context, name string) (NoticeMark, error) {
	return p.store.Mark(ctx, name)
}
