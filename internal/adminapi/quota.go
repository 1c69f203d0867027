package adminapi

import (
	"context"
	"time"

	"github.com/purserpay/purser/pay"
)

// Quota tells how many payments a plan leaves a key this month (UTC). The keys of an
// organization share theirs.
type Quota struct {
	Used   string    `json:"used"`
	Most   string    `json:"most"`
	Resets time.Time `json:"resets_at"`
}

// withQuota adds to a shown key the monthly quota that it has.
func (p *Purser) withQuota(ctx context.Context, k pay.Key, shown Key) (Key, error) {
	q, err := p.Payer.Quota(ctx, k)
	if err != nil {
		return shown, err
	}
	if q != nil {
		shown.Quota = &Quota{Used: q.Used.String(), Most: q.Most.String(), Resets: q.Resets}
	}
	return shown, nil
}

// QuotaStatus counts the owners of quotas by how far they are this month.
type QuotaStatus struct {
	Counted   int `json:"counted"`
	Near      int `json:"near"` // 80 % or more
	Exhausted int `json:"exhausted"`
	// Fullest names the owner with the largest part used.
	Fullest string `json:"fullest"`
	Used    string `json:"used"`
	Most    string `json:"most"`
}
