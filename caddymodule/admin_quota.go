package caddymodule

import (
	"context"
	"fmt"
	"time"

	"github.com/purserpay/purser/pay"
)

// adminQuota tells how many payments a plan leaves a key this month (UTC). The keys of an
// organization share theirs.
type adminQuota struct {
	Used   string    `json:"used"`
	Most   string    `json:"most"`
	Resets time.Time `json:"resets_at"`
}

// withQuota adds to a shown key the monthly quota that it has.
func (t *tenant) withQuota(ctx context.Context, k pay.Key, shown adminKey) (adminKey, error) {
	q, err := t.payer.Quota(ctx, k)
	if err != nil {
		return shown, adminFailure(err)
	}
	if q != nil {
		shown.Quota = &adminQuota{Used: q.Used.String(), Most: q.Most.String(), Resets: q.Resets}
	}
	return shown, nil
}

// text is the quota for people.
func (q *adminQuota) text() string {
	if q == nil {
		return unlimited
	}
	return q.Used + " of " + q.Most
}

// quotaStatus counts the owners of quotas by how far they are this month.
type quotaStatus struct {
	Counted   int `json:"counted"`
	Near      int `json:"near"` // 80 % or more
	Exhausted int `json:"exhausted"`
	// Fullest names the owner with the largest part used.
	Fullest string `json:"fullest"`
	Used    string `json:"used"`
	Most    string `json:"most"`
}

// quotaStatus reads the quotas of organizations and keys; nil if there are none.
func (t *tenant) quotaStatus(ctx context.Context) (*quotaStatus, error) {
	q, err := t.readQuota(ctx, time.Now())
	if err != nil || q.counted == 0 {
		return nil, err
	}
	return &quotaStatus{
		Counted: q.counted, Near: q.near, Exhausted: q.exhausted, Fullest: q.fullest, Used: q.fullestUsed, Most: q.fullestMost,
	}, nil
}

// text is the status for people.
func (q quotaStatus) text() string {
	return fmt.Sprintf("%d of %d used up; fullest: %s, %s of %s payments this month", q.Exhausted, q.Counted, q.Fullest, q.Used, q.Most)
}
