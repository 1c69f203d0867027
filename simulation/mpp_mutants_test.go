package simulation

// mppMutants lists one for each protection of a payment by MPP.
func mppMutants() []mutant {
	return []mutant{
		{"a challenge of MPP chooses the nonce", "pay/proposal.go", "row.Authorization.Nonce, row.Bound = *nonce, true", "_, row.Bound = nonce, true"},
		{"a payment has the mark of its order where the challenge chose the nonce", "pay/proposal.go", "row.Authorization.ValidAfter = of.Order", "_ = of.Order"},
		{"one payment of a wallet has a challenge's nonce", "pay/storekit/journal.go", "if err == nil && taken {", "if err == nil && taken && false {"},
		{"a seller that asks again gets the same payload", "proxy/resend.go", "		closeBody(resp)\n		resp, seen, err = t.send(req, call)", `		if fresh, found, unread := carrier.offers(req, resp); found && unread == nil {
			m.attempt.Finish(false)
			m.challenge, call.IdempotencyKey, call.Task = fresh, "", call.Task+"again"
			if t.openPayment(req, call, m, "") != nil {
				break
			}
		}
		closeBody(resp)
		resp, seen, err = t.send(req, call)`},
		{"403 behind a credential says that it is used", "pay/evidence.go", "	case UsedReason(reason):\n		return usedClaim(reason, nil)\n	case repeated", `	case strings.HasPrefix(reason, "credential already used"):
		return claim{alone: Outcome{Verdict: VerdictVoid, Reason: reason}}
	case UsedReason(reason):
		return usedClaim(reason, nil)
	case repeated`},
		{"a 402 to a credential of MPP voids nothing", "pay/evidence.go", "	case repeated, row.Bound:", `	case row.Bound:
		return claim{alone: Outcome{Verdict: VerdictVoid, Reason: reason}}
	case repeated:`},
		{"a purchase over REST is known in any protocol", "pay/proposal.go", "t.bought().String()", "t.String()"},
	}
}
