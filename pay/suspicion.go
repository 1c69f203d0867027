package pay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/lookalike"
	"github.com/purserpay/purser/policy"
)

const (
	// lookAlikeDays bounds the days of spending in which look-alikes of a host are searched.
	lookAlikeDays = 90
	// suspicionKept is the time for which a verdict about a host's name is used again.
	suspicionKept = 10 * time.Minute
	// maxSuspicions bounds the verdicts that are kept for a key.
	maxSuspicions = 64
)

// Suspicion says why a person should see the first payment of a key to a host. The zero value says nothing.
type Suspicion struct{ Rule, Detail string }

// resemblance holds the host that another one can be taken for; "": none.
type resemblance struct {
	host string
	at   time.Time
}

// suspicion looks for signs that a payment goes where its caller did not mean to go: the host looks like one that
// the key has paid, an answer of another site has led to it, or its terms are those of another site. Whether the
// key has paid the host itself is up to the store: see [Begin.suspect]. On REST it finds nothing, because there the
// host is only the caller's word.
func (p *Payer) suspicion(ctx context.Context, r Request, pol policy.Policy, row *Payment) (s Suspicion, err error) {
	at := policy.SiteOf(row.RequestURL)
	own := lookalike.Site(at.Name)
	if _, _, named := pol.HostBudget(at); own == "" || named || !row.Door.Dials() || !pol.Suspects() {
		return s, nil
	}
	if like, err := p.resembled(ctx, row.KeyID, pol, at); err != nil {
		return s, err
	} else if like != "" {
		return Suspicion{RuleApprovalLookAlike, fmt.Sprintf("%s can be taken for %s, which this key pays", at, like)}, nil
	}
	if from := lookalike.Site(policy.SiteOf(r.LedFrom).Name); from != "" && from != own {
		return Suspicion{RuleApprovalOtherSite, fmt.Sprintf("an answer of %s has led to %s", policy.SiteOf(r.LedFrom), at)}, nil
	}
	if of := policy.SiteOf(row.Offer.ResourceURL()); lookalike.Site(of.Name) != "" && lookalike.Site(of.Name) != own {
		return Suspicion{RuleApprovalOtherSite, fmt.Sprintf("the terms of %s are for a resource of %s", at, of)}, nil
	}
	return s, nil
}

// resembled returns the host that a site can be taken for, among those that the key has paid and those that its
// limits name; "": none.
func (p *Payer) resembled(ctx context.Context, keyID string, pol policy.Policy, at policy.Site) (string, error) {
	now := p.now()
	if last := p.resemblances.Get(keyID, at.Name); !last.at.IsZero() && now.Sub(last.at).Abs() < suspicionKept {
		return last.host, nil
	}
	hosts := map[string]bool{}
	for pattern := range pol.Hosts {
		if strings.HasPrefix(pattern, "mcp://") {
			pattern = policy.SiteOf(pattern).Name
		}
		hosts[withoutPort(strings.TrimPrefix(pattern, "*."))] = true
	}
	err := p.store.VisitSpendDays(ctx, []string{keyID}, DayOf(now).AddDate(0, 0, -lookAlikeDays), now, SpendDays{
		Day: func(string, time.Time, Sum) {}, Task: func(string, time.Time, []byte, Sum) {},
		Host: func(_ string, _ time.Time, name []byte, _ Sum) { hosts[withoutPort(string(name))] = true },
	})
	if err != nil {
		return "", fmt.Errorf("reading the hosts that a key has paid: %w", err)
	}
	like := lookalike.Of(at.Name, slices.Sorted(maps.Keys(hosts)))
	p.resemblances.Set(keyID, at.Name, resemblance{like, now})
	return like, nil
}

// withoutPort returns the name of a host as books and policies have it.
func withoutPort(host string) string {
	name, _, _ := strings.Cut(host, ":")
	return name
}

// suspect turns what looks suspicious into the rule by which a person is asked, unless the key has paid the host.
func (b *Begin) suspect(v BeginView, rule, detail string) (string, string, error) {
	s := b.Suspicion
	if s.Rule == "" || rule != "" && rule != RuleApprovalNewHost {
		return rule, detail, nil
	}
	if rule == "" {
		paid, err := v.Paid(b.KeyID, b.New.Host, b.New.Door.Dials())
		if err != nil || paid {
			return "", "", err
		}
	}
	return s.Rule, s.Detail + "; a person must approve the first payment there", nil
}
