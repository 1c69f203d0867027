package pay

import (
	"context"
	"time"
)

// RetainOnce takes one step of removing old payments.
var RetainOnce = (*Payer).retainOnce

// WhatIfWithin is WhatIf with other bounds.
func (p *Payer) WhatIfWithin(ctx context.Context, k Key, pol *Policy, since time.Time, most int, whole time.Duration) (WhatIf, error) {
	return p.whatIf(ctx, k, pol, since, most, whole, whole)
}
