package pay

import (
	"context"
	"strings"
	"time"
)

// OrganizationSpendQuery selects spend events of an organization.
type OrganizationSpendQuery struct {
	KeyID string // one key of the organization; "" is all of them
	Host  string // as recorded, see [SpendEvent]; "" is any
	Task  string // "" is any
	// From and To are UTC days, both included, by the events' Created. Zero is no bound.
	From, To time.Time
	Before   string // SpendPage.Next of the page before; "" for the first
	Limit    int    // at most 500; below 1: 50
}

// Wants reports whether the query selects an event by host, task and day.
func (q OrganizationSpendQuery) Wants(e *SpendEvent) bool {
	day := DayOf(e.Created)
	return (q.Host == "" || e.Host == q.Host) && (q.Task == "" || e.Task == q.Task) &&
		(q.From.IsZero() || !day.Before(DayOf(q.From))) && (q.To.IsZero() || !day.After(DayOf(q.To)))
}

// SpendPage is a part of a listing, newest first.
type SpendPage struct {
	Entries []SpendEntry
	// Next is where the following page begins; "" at the end. A page with few entries, or
	// none, may have one, where few of many events are wanted.
	Next string
}

// SpendEntry is a spend event with what its payment tells.
type SpendEntry struct {
	SpendEvent
	Transaction string // 0x + 64 hex, "" when unknown
	Network     string // our name
	Settlement  string // "payer" or "seller"; "" for what reconciling found
	Flags       []string
}

// OrganizationSpend lists what an organization's keys spent, newest first. ErrKeyNotFound and
// ErrEventNotFound for a key and a position that are not the organization's; *InputError for
// what cannot be a task.
func (p *Payer) OrganizationSpend(ctx context.Context, orgID string, q OrganizationSpendQuery) (SpendPage, error) {
	if q.Task != "" && !ValidTask(q.Task) {
		return SpendPage{}, &InputError{Field: "task", Reason: "1 to 64 characters of A-Z a-z 0-9 . _ -"}
	}
	keys, err := p.organizationKeyIDs(ctx, orgID, q.KeyID)
	if err != nil {
		return SpendPage{}, err
	}
	q.Host, q.Limit = RecordedHost(q.Host), pageSize(q.Limit)
	return p.store.ListSpend(ctx, keys, q)
}

// pageSize is how many rows a page of a listing has.
func pageSize(limit int) int {
	if limit < 1 {
		return 50
	}
	return min(limit, 500)
}

// RecordedHost is what somebody typed as payments and events have it: a host, or a URL.
func RecordedHost(typed string) string {
	typed = strings.TrimSpace(typed)
	if s := siteOf(typed); s.name != "" {
		return s.String()
	}
	return strings.TrimSuffix(strings.ToLower(typed), ".")
}

// organizationKeyIDs are the ids of an organization's keys, or the one that is asked for:
// ErrKeyNotFound if it is not the organization's.
func (p *Payer) organizationKeyIDs(ctx context.Context, orgID, keyID string) ([]string, error) {
	if keyID != "" {
		k, err := p.OrganizationKey(ctx, orgID, keyID)
		return []string{k.ID}, err
	}
	keys, err := p.OrganizationKeys(ctx, orgID)
	ids := make([]string, 0, len(keys))
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	return ids, err
}
