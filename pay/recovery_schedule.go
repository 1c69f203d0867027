package pay

import "time"

// Recovery's pace.
const (
	recoverEvery = 5 * time.Second
	recoverBatch = 200
	// recoverTime bounds the time in which a batch takes payments: lapsed leases and payments that
	// have come due meanwhile must not wait for a slow RPC.
	recoverTime = 20 * time.Second
	// recoverAtOnce bounds the payments that recovery looks at concurrently. One payment with a
	// slow RPC does not delay the others.
	recoverAtOnce = 8
	// recoverBehind is recoverAtOnce while a whole batch is due: a backlog of settled payments to be
	// confirmed would hold up the open ones behind it.
	recoverBehind = 32
	firstCheck    = 20 * time.Second // after a payment was journaled
	maxBackoff    = 10 * time.Minute
	lateBackoff   = time.Hour      // for what the RPC has given no answer about for long
	slowBackoff   = 24 * time.Hour // for what only a late RPC could close
	settleDelay   = 5 * time.Second
)

// nextCheck returns when recovery should look at a payment next; zero is never.
func (p *Payer) nextCheck(row *Payment, now time.Time) time.Time {
	backoff := func(most time.Duration) time.Time {
		d := firstCheck << min(row.Checks, 16)
		return now.Add(min(d, most))
	}
	watched := p.watches(row.Terms.Network)
	switch {
	case row.Retired:
		return time.Time{}
	case !row.unproven(), row.State == Settled && !watched:
		return row.retireCheck(now)
	case row.State == Settled:
		if at := row.ValidBefore().Add(settleDelay); at.After(now) {
			return at
		}
		return backoff(maxBackoff)
	case row.Doubted && !watched:
		return row.doubtCheck(now)
	case row.Doubted:
		return p.nextEvidenceCheck(row, now, watched, backoff)
	case row.State == Void && !watched:
		return backoff(slowBackoff)
	case row.State == Void:
		return backoff(lateBackoff)
	case row.Refused && !watched: // all that will be known, unless there is an RPC one day
		return earliest(backoff(slowBackoff), row.ValidBefore().Add(RetainPayload))
	}
	return p.nextEvidenceCheck(row, now, watched, backoff)
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// nextEvidenceCheck is nextCheck for a payment that is open or doubted.
func (p *Payer) nextEvidenceCheck(row *Payment, now time.Time, watched bool, backoff func(time.Duration) time.Time) time.Time {
	expired := !now.Before(row.ValidBefore())
	switch {
	case !watched && !expired:
		return row.ValidBefore()
	case !watched:
		return backoff(slowBackoff)
	case !expired:
		// The window's end is when the chain can say no for good.
		if at := backoff(maxBackoff); at.Before(row.ValidBefore()) {
			return at
		}
		return row.ValidBefore().Add(settleDelay)
	case row.Unresolved:
		return backoff(lateBackoff)
	}
	at := backoff(maxBackoff)
	if told := row.ValidBefore().Add(evidenceWait); !row.Refused && row.State == Open && now.Before(told) && told.Before(at) {
		return told
	}
	return at
}

// atOnce returns how many of the due payments are looked at concurrently.
func atOnce(due int) int {
	if due >= recoverBatch {
		return recoverBehind
	}
	return recoverAtOnce
}
