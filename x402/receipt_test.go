package x402_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

const receiptV2 = `{"success":true,"transaction":"0x89c91c789e57059b17285e7ba1716a1f5ff4c5dace0ea5a5135f26158d0421b9","network":"eip155:8453",` +
	`"payer":"0x857b06519E91e3A54538791bDbb0E22373e36b66","amount":"10000","extensions":null,"requirements":{"x":[1]}}`

func TestDecodeReceipt(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"standard": b64(receiptV2), "url": base64.RawURLEncoding.EncodeToString([]byte(receiptV2)), "plain": receiptV2,
		"number": b64(strings.Replace(receiptV2, `"10000"`, `10000`, 1)),
	} {
		r, err := x402.DecodeReceipt(value)
		if err != nil || !r.Success || r.Network != "eip155:8453" || !x402.ValidTransaction(r.Transaction) ||
			r.Payer != "0x857b06519E91e3A54538791bDbb0E22373e36b66" || r.Amount == nil || *r.Amount != money.New(10000) || len(r.Raw) == 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	r, err := x402.DecodeReceipt(`{"success":true,"transaction":"","network":"base","payer":null,"errorReason":null,"amount":null}`)
	if err != nil || r.Amount != nil || r.Payer != "" || r.ErrorReason != "" {
		t.Errorf("nulls: %+v, %v", r, err)
	}
	long := strings.Repeat("0123456789abcdef", 1024)
	r, err = x402.DecodeReceipt(b64(`{"success":false,"errorReason":"settlement_pending","errorMessage":"` + long + `","transaction":"0x1","payer":7,"amount":"0.1"}`))
	if err != nil || r.Success || r.ErrorReason != "settlement_pending" || r.ErrorMessage != long || r.Transaction != "0x1" || r.Payer != "" || r.Amount != nil {
		t.Errorf("refusal: %.200v, %v", r, err)
	}
}

func TestBadReceipts(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"empty": "", "words": "paid, thanks", "null": b64("null"), "array": b64("[true]"), "true": b64("true"), "no success": b64(`{}`),
		"success text": b64(`{"success":"true"}`), "success 1": b64(`{"success":1}`), "success null": b64(`{"success":null}`),
		"other case": b64(`{"Success":true}`), "twice": b64(`{"success":false,"success":true}`), "truncated": b64(receiptV2[:100]),
		"transaction type": b64(`{"success":true,"transaction":7}`), "network type": b64(`{"success":true,"network":8453}`),
		"payer type": b64(`{"success":true,"payer":{}}`), "amount type": b64(`{"success":true,"amount":{}}`),
		"amount negative": b64(`{"success":true,"amount":"-1"}`), "amount fraction": b64(`{"success":true,"amount":0.5}`),
		"two wrong": b64(`{"success":true,"payer":1,"amount":"x"}`),
		"large":     b64(`{"success":true,"errorMessage":"` + strings.Repeat("x", x402.MaxChallengeBytes) + `"}`),
	} {
		if r, err := x402.DecodeReceipt(value); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestReceiptFromHeader(t *testing.T) {
	t.Parallel()
	v1 := b64(`{"success":true,"transaction":"0x","network":"base"}`)
	h := http.Header{}
	if _, found, err := x402.ReceiptFromHeader(h); found || err != nil {
		t.Errorf("without headers: %v, %v", found, err)
	}
	h.Set("x-payment-response", v1)
	if r, found, err := x402.ReceiptFromHeader(h); !found || err != nil || r.Network != "base" {
		t.Errorf("v1: %+v, %v, %v", r, found, err)
	}
	h.Set("payment-response", b64(receiptV2))
	if r, found, err := x402.ReceiptFromHeader(h); !found || err != nil || r.Network != "eip155:8453" {
		t.Errorf("v2 first: %+v, %v, %v", r, found, err)
	}
	h.Set("payment-response", "garbage!")
	if _, found, err := x402.ReceiptFromHeader(h); !found || err == nil {
		t.Errorf("garbage: %v, %v", found, err)
	}
	h.Set("payment-response", b64(receiptV2))
	h.Add("payment-response", v1)
	if _, found, err := x402.ReceiptFromHeader(h); !found || err == nil {
		t.Errorf("two different ones: %v, %v", found, err)
	}
}
