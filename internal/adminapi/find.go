package adminapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// Operators name keys, wallets, payments and organizations by their ids, by the beginning of an id, or
// by a label. A name that fits two of them finds none, because some orders move money.

const (
	minPrefix    = 8 // characters that an id must begin with to be found
	searchPage   = 1000
	searchRows   = 100_000 // read at most
	shownMatches = 5       // in a refusal
)

// named is a kind of things that operators name.
type named[T any] struct {
	kind string // for people
	// page lists them by id, behind an id.
	page func(ctx context.Context, after string, limit int) ([]T, error)
	id   func(T) string
	// more tells people about one beside its id; "" says nothing.
	more func(T) string
	// called reports whether it has a name beside its id; nil: none has.
	called func(v T, name string) bool
	// unknown is the error for a name that fits none.
	unknown error
}

// search finds the only one with this name or id prefix. A full UUID is never tried as a label: a
// mistyped id must not match another key's label.
func (n named[T]) search(ctx context.Context, name string) (one T, err error) {
	if _, err := uuid.Parse(name); err == nil || name == "" {
		return one, n.unknown
	}
	begins := idBegins(name)
	var found []T
	for after, seen := "", 0; ; {
		list, err := n.page(ctx, after, searchPage)
		if err != nil {
			return one, err
		}
		for _, v := range list {
			if begins(n.id(v)) || n.called != nil && n.called(v, name) {
				found = append(found, v)
			}
		}
		if len(list) < searchPage || len(found) > shownMatches {
			break
		}
		after = n.id(list[len(list)-1])
		if seen += len(list); seen >= searchRows {
			return one, Errorf(http.StatusConflict, "there are too many %ss to look for %.64q among: give the whole id", n.kind, name)
		}
	}
	return n.only(name, found)
}

// only returns the one that was found, or refuses to decide.
func (n named[T]) only(name string, found []T) (one T, err error) {
	switch len(found) {
	case 0:
		return one, n.unknown
	case 1:
		return found[0], nil
	}
	var list []string
	for _, v := range found[:min(len(found), shownMatches)] {
		text := n.id(v)
		if more := n.more(v); more != "" {
			text += " (" + more + ")"
		}
		list = append(list, text)
	}
	if len(found) > shownMatches {
		list = append(list, "others")
	}
	last := len(list) - 1
	return one, Errorf(http.StatusConflict, "%.64q fits several %ss: give the whole id of %s or %s",
		name, n.kind, strings.Join(list[:last], ", "), list[last])
}

// idBegins returns a function that reports whether an id begins with a prefix. Ids of organizations are
// found without their first letters, too.
func idBegins(prefix string) func(id string) bool {
	if len(prefix) < minPrefix {
		return func(string) bool { return false }
	}
	prefix = strings.ToLower(prefix) // as ids are
	return func(id string) bool {
		return strings.HasPrefix(id, prefix) || strings.HasPrefix(strings.TrimPrefix(id, organizationPrefix), prefix)
	}
}

// organizationPrefix begins the ids of organizations that purser makes.
const organizationPrefix = "org_"

// quotedLabel shows a label in a refusal.
func quotedLabel(label string) string {
	if label == "" {
		return ""
	}
	return fmt.Sprintf("%.40q", label)
}

// find returns a key by its id, or the exec key by "exec". A label or an id's prefix finds a key if it
// fits no other key. Clients choose labels, so purser never decides between two keys.
func (p *Purser) find(ctx context.Context, name string) (k pay.Key, err error) {
	if name == books.ExecLabel {
		if k, err = p.Keys.FindExec(ctx); errors.Is(err, pay.ErrKeyNotFound) {
			return k, Errorf(http.StatusNotFound, "there is no exec key yet: it is made when it is first used or limited")
		}
	} else if k, err = p.Books.Key(ctx, name); errors.Is(err, pay.ErrKeyNotFound) {
		return named[pay.Key]{
			kind: "key", page: p.Books.Keys, id: func(k pay.Key) string { return k.ID }, more: func(k pay.Key) string { return quotedLabel(k.Label) },
			called:  func(k pay.Key, label string) bool { return k.Label == label },
			unknown: Errorf(http.StatusNotFound, "no key has the id or label %.64q%s", name, tooShort(name)),
		}.search(ctx, name)
	}
	return k, err
}

// tooShort tells of the beginning of an id that has too few characters.
func tooShort(name string) string {
	if len(name) < minPrefix && strings.Trim(strings.ToLower(name), "0123456789abcdef-…") == "" {
		return fmt.Sprintf(" (of an id, the first %d characters or more will do)", minPrefix)
	}
	return ""
}

// findOrganization returns an organization by its id, or by the beginning of that.
func (p *Purser) findOrganization(ctx context.Context, name string) (pay.Organization, error) {
	o, err := p.Books.Organization(ctx, name)
	if err == nil && o.Created.IsZero() { // as the store answers for an unknown one
		return named[pay.Organization]{
			kind: "organization", page: p.Books.Organizations, id: func(o pay.Organization) string { return o.ID },
			more:    func(o pay.Organization) string { return "plan " + strings.ToLower(string(o.Plan)) },
			unknown: Errorf(http.StatusNotFound, "no organization has the id %.64q%s ('purser organizations' lists them)", name, tooShort(name)),
		}.search(ctx, name)
	}
	return o, err
}

// findPayment returns a payment by its id, or by the beginning of that. Payments are too many to be read:
// their list is begun behind the last id with this beginning.
func (p *Purser) findPayment(ctx context.Context, name string) (*pay.Payment, error) {
	row, err := p.Books.AnyPayment(ctx, name)
	if !errors.Is(err, pay.ErrPaymentNotFound) {
		return row, err
	}
	unknown := Errorf(http.StatusNotFound, "no payment has the id %.64q%s ('purser payments' lists them)", name, tooShort(name))
	if _, err := uuid.Parse(name); err == nil || len(name) < minPrefix {
		return nil, unknown
	}
	begins := idBegins(name)
	list, err := p.Books.AllPayments(ctx, pay.LabelQuery{Before: strings.ToLower(name) + "g", Limit: shownMatches + 1}) // g comes after all that ids have
	if err != nil {
		return nil, err
	}
	var found []*pay.Payment
	for _, row := range list {
		if begins(row.ID) {
			found = append(found, row)
		}
	}
	return named[*pay.Payment]{
		kind: "payment", id: func(row *pay.Payment) string { return row.ID }, unknown: unknown,
		more: func(row *pay.Payment) string {
			return money.Text(row.Moved()) + " for " + cmp.Or(row.Host, "a withdrawal") + ", " + string(row.State)
		},
	}.only(name, found)
}
