package mpp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/purserpay/purser/x402"
)

// nonces returns what marks the use of the authorization that answers a charge by evm. The specification has the hash of
// id and realm, one behind the other, and so have mppx up to 0.11 and mpp-rs. pympp from 0.15 on and later versions of mppx
// hash both as a list of JSON. pympp says so by a scope in its request or a nonce in its opaque data, unless
// unique_challenges is off. mppx says nothing. So other is the hash of the list for challenges without a mark.
func (c Challenge) nonces(scoped bool) (nonce x402.Nonce, other *x402.Nonce) {
	id, realm := c.Get("id"), c.Get("realm")
	var list bytes.Buffer
	e := json.NewEncoder(&list)
	e.SetEscapeHTML(false)
	_ = e.Encode([]string{id, realm}) // texts can always be written
	text := strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(strings.TrimSuffix(list.String(), "\n"))
	listed := x402.Nonce(x402.Keccak256([]byte(text)))
	data, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(c.Get("opaque"), "="))
	if scoped || err == nil && bytes.Contains(data, []byte(`"_mpp_nonce"`)) {
		return listed, nil
	}
	return x402.Nonce(x402.Keccak256([]byte(id), []byte(realm))), &listed
}

// WrongNonce reads the words with which a seller has refused a payload. is reports that they name its nonce, of which its
// challenge does not tell the form. other: the payload has [x402.Requirement.OtherNonce]. realm is the seller's.
func WrongNonce(p x402.Payload, words string) (realm string, other, is bool) {
	if !strings.Contains(strings.ToLower(words), "challenge hash mismatch") { // mppx, pympp
		return "", false, false
	}
	c, asked, err := answered(p)
	a, _, unsigned := p.Authorization()
	if err != nil || unsigned != nil || c.Get("method") != "evm" {
		return "", false, false
	}
	nonce, second := c.nonces(asked.scoped)
	if second == nil || a.Nonce != nonce && a.Nonce != *second {
		return "", false, false
	}
	return c.Get("realm"), a.Nonce == *second, true
}
