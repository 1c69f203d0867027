package honest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox/token"
	"github.com/purserpay/purser/x402"
)

// Reasons of refusals: the words of the reference facilitator for scheme exact on EVM chains.
const (
	BadScheme          = "invalid_exact_evm_scheme"
	BadNetwork         = "invalid_exact_evm_network_mismatch"
	NoDomain           = "invalid_exact_evm_missing_eip712_domain"
	BadSignature       = "invalid_exact_evm_signature"
	BadRecipient       = "invalid_exact_evm_recipient_mismatch"
	Expired            = "invalid_exact_evm_payload_authorization_valid_before"
	NotYetValid        = "invalid_exact_evm_payload_authorization_valid_after"
	BadValueV1         = "invalid_exact_evm_authorization_value"
	BadValueV2         = "invalid_exact_evm_payload_authorization_value_mismatch"
	NoAsset            = "asset_not_deployed_contract"
	NonceUsed          = "invalid_exact_evm_nonce_already_used"
	BadTokenName       = "invalid_exact_evm_token_name_mismatch"
	BadTokenVersion    = "invalid_exact_evm_token_version_mismatch"
	TooPoor            = "invalid_exact_evm_insufficient_balance"
	SimulationFailed   = "invalid_exact_evm_transaction_simulation_failed"
	TransactionFailed  = "invalid_exact_evm_transaction_failed"
	SettlementPending  = "settlement_pending"
	UnexpectedAtSettle = "unexpected_settle_error"
)

// expiryMargin is the validity that an authorization must still have, so that its transfer reaches
// a block in time.
const expiryMargin = 6 * time.Second

// refusal says why a payment is refused.
type refusal struct {
	Reason  string // one of the words above
	Message string // for people, or empty
}

func refuse(reason string) *refusal { return &refusal{Reason: reason} }

// check makes the checks that need no chain, in the order of the reference facilitator.
func (f *Facilitator) check(c call) *refusal {
	chain, token := Network()
	a := c.authorization
	switch {
	case c.scheme != Scheme || c.required.Scheme != Scheme:
		return refuse(BadScheme)
	case c.required.Extra == nil || c.required.Extra.Name == "" || c.required.Extra.Version == "":
		return refuse(NoDomain)
	case c.network != c.required.Network || c.network != WireNetwork(c.version):
		return refuse(BadNetwork)
	}
	asset, err := x402.ParseAddress(c.required.Asset)
	if err != nil {
		return refuse(NoAsset)
	}
	signed := x402.Asset{Address: asset, Name: c.required.Extra.Name, Version: c.required.Extra.Version}
	signer, err := x402.Recover(a.Digest(signed, chain.ChainID), c.signature)
	if err != nil || signer != a.From {
		return refuse(BadSignature)
	}
	if payTo, err := x402.ParseAddress(c.required.PayTo); err != nil || payTo != a.To {
		return refuse(BadRecipient)
	}
	now := f.now()
	if a.ValidBefore < uint64(now.Add(expiryMargin).Unix()) {
		return refuse(Expired)
	}
	if a.ValidAfter > uint64(now.Unix()) {
		return refuse(NotYetValid)
	}
	if price, err := money.Parse(c.required.Price(c.version)); err != nil || price != a.Value {
		if c.version == 1 {
			return refuse(BadValueV1)
		}
		return refuse(BadValueV2)
	}
	if asset != token.Address {
		return refuse(NoAsset)
	}
	return nil
}

// simulate tries the transfer on the chain's latest state. When that fails, it finds out why. The
// error is the chain's.
func (f *Facilitator) simulate(ctx context.Context, c call) (*refusal, error) {
	err := f.chain.Simulate(ctx, c.authorization, c.signature)
	var revert *token.RevertError
	if !errors.As(err, &revert) {
		return nil, err
	}
	reason, err := f.diagnose(ctx, c)
	if err != nil {
		return nil, err
	}
	return &refusal{Reason: reason, Message: revert.Error()}, nil
}

// diagnose names the obstacle to a transfer.
func (f *Facilitator) diagnose(ctx context.Context, c call) (string, error) {
	_, token := Network()
	a := c.authorization
	used, err := f.chain.AuthorizationState(ctx, common.Address(a.From.EVM()), a.Nonce)
	if err != nil {
		return "", fmt.Errorf("look up the nonce: %w", err)
	}
	balance, err := f.chain.Balance(ctx, common.Address(a.From.EVM()))
	if err != nil {
		return "", fmt.Errorf("look up the balance: %w", err)
	}
	switch {
	case used:
		return NonceUsed, nil
	case c.required.Extra.Name != token.Name:
		return BadTokenName, nil
	case c.required.Extra.Version != token.Version:
		return BadTokenVersion, nil
	case balance.Cmp(a.Value.Big()) < 0:
		return TooPoor, nil
	}
	return SimulationFailed, nil
}

// transfer moves the money and returns the transaction. A refusal may come with a transaction that
// failed, or whose outcome is unknown.
func (f *Facilitator) transfer(ctx context.Context, c call) (string, *refusal) {
	tx, err := f.chain.TransferWithAuthorization(ctx, c.authorization, c.signature)
	if err == nil {
		return tx, nil
	}
	no := &refusal{Message: err.Error()}
	var revert *token.RevertError
	switch isRevert := errors.As(err, &revert); {
	case isRevert && tx == "":
		no.Reason = reasonOf(revert.Reason)
	case isRevert:
		no.Reason = TransactionFailed
	case tx != "":
		no.Reason = SettlementPending
	default:
		no.Reason = UnexpectedAtSettle
	}
	return tx, no
}

// reasonOf translates the token's revert text into a reason.
func reasonOf(revert string) string {
	for _, known := range []struct{ words, reason string }{
		{"authorization is expired", Expired},
		{"authorization is not yet valid", NotYetValid},
		{"authorization is used or canceled", NonceUsed},
		{"transfer amount exceeds balance", TooPoor},
		{"invalid signature", BadSignature},
	} {
		if strings.Contains(revert, known.words) {
			return known.reason
		}
	}
	return TransactionFailed
}
