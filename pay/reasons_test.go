package pay

import "testing"

func TestReasons(t *testing.T) {
	t.Parallel()
	const (
		nothing = iota
		used
		pending
		early // before broadcasting
	)
	for reason, want := range map[string]int{
		"nonce_already_used":                             used,
		"invalid_exact_evm_nonce_already_used":           used,
		"Invalid_Exact_EVM_Nonce_Already_Used":           used,
		"duplicate_settlement":                           used,
		"Settlement failed: duplicate_settlement.":       used,
		"FiatTokenV2: authorization is used or canceled": used,
		`execution reverted: "FiatTokenV2: authorization is used or canceled" (0x08c379a0)`: used,

		"settlement_pending": pending,
		"settle_exact_evm_transaction_confirmation_timed_out": pending,
		"invalid_exact_evm_failed_to_get_receipt":             pending,

		"insufficient_funds":                     early,
		" insufficient_funds\n":                  early,
		"invalid_exact_evm_insufficient_balance": early,
		"invalid_payload":                        early,
		"invalid_scheme":                         early,
		"invalid_network":                        early,
		"invalid_exact_evm_payload_authorization_valid_before": early,
		"invalid_exact_evm_recipient_mismatch":                 early,
		"invalid_exact_evm_payload_authorization_value":        early,
		"invalid_exact_evm_transaction_simulation_failed":      early,
		"self_send_not_allowed":                                early,

		"":                                     nothing,
		"Payment required":                     nothing,
		"something_new":                        nothing,
		"transaction_failed":                   nothing,
		"invalid_exact_evm_transaction_failed": nothing,
		"invalid_exact_evm_transfer_event_mismatch":    nothing,
		"invalid_transaction_state":                    nothing,
		"settle_exact_failed_onchain":                  nothing,
		"settle_exact_node_failure":                    nothing,
		"unexpected_settle_error":                      nothing,
		"unexpected_verify_error":                      nothing,
		"unknown_error":                                nothing,
		"smart_wallet_deployment_failed":               nothing,
		"invalid_exact_evm_failed_to_check_nonce":      nothing,
		"invalid_exact_evm_failed_to_execute_transfer": nothing,
		"invalid_exact_evm_signature":                  nothing,
		"invalid_exact_evm_payload_signature":          nothing,
		"payment_expired":                              nothing,
		// A word inside text may be about something else; only a whole word refuses.
		"retry after transaction_failed: insufficient_funds": nothing,
		"insufficient_funds_for_gas":                         nothing,
	} {
		got := nothing
		set := 0
		for class, is := range map[int]bool{used: UsedReason(reason), pending: PendingReason(reason), early: PreBroadcastReason(reason)} {
			if is {
				got = class
				set++
			}
		}
		if got != want || set > 1 {
			t.Errorf("%q: class %d (%d classes), want %d", reason, got, set, want)
		}
	}
}

// Every word of the table belongs to one class only.
func TestReasonClassesAreDisjoint(t *testing.T) {
	t.Parallel()
	for word := range preBroadcastWords {
		if UsedReason(word) || PendingReason(word) {
			t.Errorf("%q is in two classes", word)
		}
	}
}
