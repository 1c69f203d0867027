package hostile

import "slices"

// Labels of payments at the end.
const (
	settled  = "settled"
	void     = "void"
	disputed = "settled, disputed"
)

var (
	atSeller   = []Door{SellerDoor, ProxyDoor}
	everywhere = Doors()
)

// Scenarios lists all scenarios, in an order for readers.
func Scenarios() []Scenario {
	return slices.Concat(
		[]Scenario{nothingFails()}, verifyScenarios(), settleScenarios(), sellerScenarios(), challengeScenarios(),
		receiptScenarios(), lateScenarios(), firstVersionScenarios(), rpcScenarios(),
	)
}

func nothingFails() Scenario {
	return Scenario{
		Name: "nothing fails", Holds: "the order is delivered and paid for once",
		Doors: everywhere, Money: Once, Ends: []string{settled},
	}
}

// atFacilitator returns a scenario in which purser's own facilitator fails.
func atFacilitator(f FacilitatorFault, holds string, m Money, ends ...string) Scenario {
	return Scenario{
		Name: "facilitator " + f.Name, Holds: holds, Doors: []Door{PayerDoor},
		Facilitator: []FacilitatorFault{f}, Money: m, Ends: ends,
	}
}

const (
	drivenOn  = "a repeat drives the same payment on"
	foundOut  = "the payment is found to be settled"
	corrected = "the claim is booked, disproved by the chain and corrected"
)

func verifyScenarios() []Scenario {
	return []Scenario{
		atFacilitator(VerifyTimesOut, drivenOn, Once, settled),
		atFacilitator(VerifyReset, drivenOn, Once, settled),
		atFacilitator(VerifyFails, drivenOn, Once, settled),
		atFacilitator(VerifyRefuses, drivenOn, Once, settled),
		atFacilitator(VerifyRefusesAndSends, "it gets one authorization, and "+foundOut, Once, settled),
		atFacilitator(VerifySaysUsed, "the chain knows better, "+drivenOn, Once, settled),
	}
}

func settleScenarios() []Scenario {
	list := []Scenario{
		atFacilitator(TimeoutBefore, drivenOn, Once, settled),
		atFacilitator(TimeoutAfter, foundOut, Once, settled),
		atFacilitator(ResetBefore, drivenOn, Once, settled),
		atFacilitator(ResetAfter, foundOut, Once, settled),
		atFacilitator(FailsBefore, drivenOn, Once, settled),
		atFacilitator(FailsAfter, foundOut, Once, settled),
		atFacilitator(InventsSuccess, corrected, Never, disputed),
		atFacilitator(ClaimsAnothers, corrected, Never, disputed),
		atFacilitator(NamesNothing, "the chain names the transaction", Once, settled),
		atFacilitator(DeniesAfter, foundOut, Once, settled),
		atFacilitator(DeniesByName, foundOut, Once, settled),
		atFacilitator(PendingAfter, foundOut, Once, settled),
		atFacilitator(PendingBefore, drivenOn, Once, settled),
		atFacilitator(UnknownReason, drivenOn, Once, settled),
		atFacilitator(Refuses, drivenOn, Once, settled),
		atFacilitator(RefusesAfter, foundOut, Once, settled),
		atFacilitator(Contradicts, drivenOn, Once, settled),
		atFacilitator(Malformed, foundOut, Once, settled),
		atFacilitator(TwoVerdicts, drivenOn, Once, settled),
		atFacilitator(Endless, foundOut, Once, settled),
		atFacilitator(Slow, "the payment settles", Once, settled),
		atFacilitator(Duplicate, foundOut, Once, settled),
		atFacilitator(SaysDuplicate, foundOut, Once, settled),
		atFacilitator(SaysDuplicateBefore, "the chain knows better, "+drivenOn, Once, settled),
	}
	swaps := atFacilitator(Swaps, "each payment ends with its own transaction", Once, settled)
	swaps.Pair = true
	half := atFacilitator(SwapsRefused, "what is settled is booked, what is not is corrected", AtMostOnce, settled, disputed)
	half.Facilitator, half.Pair = append(half.Facilitator, SwapsSettled), true
	return append(list, swaps, half)
}

// bySeller returns a scenario in which the seller fails.
func bySeller(f SellerFault, holds string, m Money, ends ...string) Scenario {
	return Scenario{
		Name: "seller " + f.Name, Holds: holds, Doors: atSeller, Seller: []SellerFault{f}, Money: m, Ends: ends,
	}
}

const (
	sentAgain = "a repeat sends the same payload"
	notAgain  = "a repeat does not pay again"
)

func sellerScenarios() []Scenario {
	list := []Scenario{
		bySeller(HangsUpBefore, sentAgain, Once, settled),
		bySeller(HangsUpAfter, notAgain, Once, settled),
		bySeller(SilentBefore, sentAgain, Once, settled),
		bySeller(SilentAfter, notAgain, Once, settled),
		bySeller(BrokenBefore, sentAgain, Once, settled),
		bySeller(BrokenAfter, notAgain, Once, settled),
		bySeller(AsksAgainBefore, sentAgain, Once, settled),
		bySeller(AsksAgainAfter, notAgain, Once, settled),
		bySeller(BareAfter, notAgain, Once, settled),
		bySeller(CutGoods, notAgain, Once, settled),
		bySeller(EndlessGoods, notAgain, Once, settled),
		bySeller(EndlessRefusal, notAgain, Once, settled),
		bySeller(StrangeHeaders, "the goods are delivered", Once, settled),
		bySeller(TakesTwice, "the second try fails on the chain", Once, settled),
		bySeller(Preempted, notAgain, Once, settled),
		bySeller(Redirects, "the payload does not follow", Once, settled, void),
		bySeller(RedirectsFirst, "nothing is paid elsewhere", Once, settled),
	}
	more := bySeller(AsksMoreAfter, "a repeat does not pay the new price", Once, settled)
	more.NeedsKey = true
	return append(list, more)
}

func challengeScenarios() []Scenario {
	drifts := bySeller(PriceDrifts, "only what was asked for is paid", AtMostOnce, settled, void)
	drifts.NeedsKey = true
	moves := bySeller(PriceMoves, "only what was asked for is signed", Never, void)
	moves.NeedsKey = true
	list := []Scenario{drifts, moves}
	for _, f := range []SellerFault{
		OtherAsset, OtherNetwork, OtherDomain, OtherScheme, HugeAmount, NoAmount, NothingAsked, NoTime, FatChallenge, EndlessChallenge, ManyRequirements,
	} {
		s := bySeller(f, "nothing is signed", Never)
		s.Doors = everywhere
		list = append(list, s)
	}
	return list
}

func receiptScenarios() []Scenario {
	return []Scenario{
		bySeller(DeniesReceipt, notAgain, Once, settled),
		bySeller(InventsReceipt, corrected, AtMostOnce, settled, disputed),
		bySeller(AnothersReceipt, corrected, AtMostOnce, settled, disputed, void),
		bySeller(OtherPayer, "the chain decides", Once, settled),
		bySeller(SmallerAmount, "the chain decides", Once, settled),
		bySeller(OtherChainReceipt, "the chain decides", Once, settled),
		bySeller(NonsenseReceipt, "the chain decides", Once, settled),
		bySeller(NoReceipt, "the chain decides", Once, settled),
	}
}

func lateScenarios() []Scenario {
	expired := bySeller(TakesLate, "an authorization that has expired moves nothing", Never, void)
	expired.Name, expired.Expired = "seller answers 504, and settles when it is too late", true
	return []Scenario{
		atFacilitator(SettlesLate, "only one of the two settlements moves money", Once, settled),
		atFacilitator(RefusesAndSettlesLate, "only one of the two settlements moves money", Once, settled),
		bySeller(TakesLate, "the late settlement is booked", Once, settled),
		expired,
	}
}

func firstVersionScenarios() []Scenario {
	list := []Scenario{
		nothingFails(),
		bySeller(HangsUpAfter, notAgain, Once, settled),
		bySeller(BrokenAfter, notAgain, Once, settled),
		bySeller(AsksAgainAfter, notAgain, Once, settled),
		bySeller(Preempted, notAgain, Once, settled),
		bySeller(InventsReceipt, corrected, AtMostOnce, settled, disputed),
	}
	for i := range list {
		list[i].Version = 1
		list[i].Name += ", version 1"
	}
	return list
}

func rpcScenarios() []Scenario {
	var list []Scenario
	for _, f := range []RPCFault{
		Lags, OtherChain, OtherToken, OtherGenesis, Refusing, Overloaded, Silent, Babbles, FromTheFuture, OnAFork, NoLogs, NoSafeTag, Forgets,
	} {
		list = append(list, Scenario{
			Name: "RPC " + f.Name, Holds: "nothing is decided by it, everything once it can be trusted",
			Doors: []Door{PayerDoor}, RPC: &f, Ends: []string{settled, void, disputed},
		})
	}
	return list
}
