package pay

import (
	"slices"
	"strings"
)

// The words with which facilitators and sellers explain a failure are an open set that
// differs between implementations. These are those that mean anything for the money. A word
// that is not here means nothing: unclear.

// UsedReason reports whether a reason says that the authorization is used already. Sellers
// and v1 facilitators wrap the word in text of their own, so it counts wherever it stands.
func UsedReason(reason string) bool { return mentions(reason, usedWords) }

// PendingReason reports whether a reason says that the transfer was sent and is not seen
// yet. It counts wherever it stands, like that of UsedReason.
func PendingReason(reason string) bool { return mentions(reason, pendingWords) }

// FundsReason reports whether a reason says that the wallet holds too little. It counts
// wherever it stands, like that of UsedReason.
func FundsReason(reason string) bool { return mentions(reason, fundsWords) }

// PreBroadcastReason reports whether a /settle that refused with this reason, and named
// no transaction, cannot have sent the transfer to the chain. The reason must be the
// whole word. It is about that one call: see [freshPayload].
func PreBroadcastReason(reason string) bool {
	return preBroadcastWords[strings.ToLower(strings.TrimSpace(reason))]
}

var usedWords = []string{
	// x402 EVM exact, v1 and v2, as invalid_exact_evm_nonce_already_used; CDP likewise.
	"nonce_already_used",
	// x402 specification v1 §9 and CDP: this payload was given to /settle before.
	"duplicate_settlement",
	// x402 EVM exact and upto by Permit2, whose nonce was spent.
	"permit2_invalid_nonce",
	// The token's own revert (FiatTokenV2), which v1 facilitators pass on as text.
	"authorization is used or canceled",
}

// spentWords name a check that fails for many reasons. A spent nonce is one of them.
var spentWords = []string{"permit2_simulation_failed"}

var pendingWords = []string{
	// x402 EVM exact: the wait for the receipt ended first.
	"settlement_pending",
	// CDP.
	"transaction_confirmation_timed_out",
	"failed_to_get_receipt",
}

var fundsWords = []string{
	// x402 specification §9; as invalid_exact_evm_insufficient_balance in EVM exact.
	"insufficient_funds",
	"insufficient_balance",
}

// Left out on purpose:
//   - transaction_failed, invalid_transaction_state, transfer_event_mismatch,
//     settle_exact_failed_onchain: a transfer was sent.
//   - invalid_exact_evm_signature and invalid_exact_evm_payload_signature: public
//     facilitators answer so when their own sending account got out of step, possibly with
//     a transfer already under way. Our signatures are checked before they leave.
//   - smart_wallet_deployment_failed: something was sent.
//   - unexpected_*, unknown_error, timeouts, node failures, failed_to_*: may be anything.
//   - invalid_payment, payment_expired: named by the v1 specification without saying when.
//   - words of Permit2 for what the proxies revert with: a transfer may have been sent before.
var preBroadcastWords = map[string]bool{
	// x402 specification §9.
	"insufficient_funds":           true,
	"invalid_network":              true,
	"invalid_payload":              true,
	"invalid_payment_requirements": true,
	"invalid_scheme":               true,
	"unsupported_scheme":           true,
	"invalid_x402_version":         true,
	"invalid_exact_evm_payload_authorization_valid_after":    true,
	"invalid_exact_evm_payload_authorization_valid_before":   true,
	"invalid_exact_evm_payload_authorization_value":          true,
	"invalid_exact_evm_payload_authorization_value_mismatch": true,
	"invalid_exact_evm_payload_recipient_mismatch":           true,
	"invalid_exact_evm_payload_undeployed_smart_wallet":      true,

	// x402 EVM exact, both versions: found by checking, simulating or estimating gas.
	"invalid_exact_evm_scheme":                        true,
	"invalid_exact_evm_network_mismatch":              true,
	"invalid_exact_evm_missing_eip712_domain":         true,
	"invalid_exact_evm_recipient_mismatch":            true,
	"invalid_exact_evm_authorization_value":           true,
	"invalid_exact_evm_token_name_mismatch":           true,
	"invalid_exact_evm_token_version_mismatch":        true,
	"invalid_exact_evm_eip3009_not_supported":         true,
	"invalid_exact_evm_insufficient_balance":          true,
	"invalid_exact_evm_transaction_simulation_failed": true,
	"invalid_exact_evm_failed_to_parse_signature":     true,
	"asset_not_deployed_contract":                     true,
	"eip6492_factory_not_allowed":                     true,
	"unsupported_payload_type":                        true,

	// x402 EVM by Permit2: found by checking or simulating.
	"invalid_permit2_spender":            true,
	"invalid_permit2_recipient_mismatch": true,
	"permit2_deadline_expired":           true,
	"permit2_not_yet_valid":              true,
	"permit2_amount_mismatch":            true,
	"permit2_token_mismatch":             true,
	"permit2_allowance_required":         true,
	"permit2_insufficient_balance":       true,
	"permit2_proxy_not_deployed":         true,
	"permit2_simulation_failed":          true,
	"upto_facilitator_mismatch":          true,
	"invalid_upto_evm_scheme":            true,
	"invalid_upto_evm_network_mismatch":  true,

	// CDP: rules and checks in front of the settlement.
	"invalid_exact_evm_payload_authorization_value_too_low":      true,
	"invalid_exact_evm_payload_authorization_typed_data_message": true,
	"invalid_exact_evm_payload_authorization_from_address_kyt":   true,
	"invalid_exact_evm_payload_authorization_to_address_kyt":     true,
	"amount_too_low":              true,
	"invalid_amount":              true,
	"kyt_risk_detected":           true,
	"request_blocked_by_location": true,
	"self_send_not_allowed":       true,
	"preflight_validation_failed": true,
	"invalid_bazaar_extension":    true,
}

func mentions(reason string, words []string) bool {
	reason = strings.ToLower(reason)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(reason, w) })
}
