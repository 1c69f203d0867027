package x402_test

import (
	"testing"

	"github.com/purserpay/purser/x402"
)

func BenchmarkDecodeHeader(b *testing.B) {
	header := b64(challengeV2)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x402.DecodeHeader(header); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDigestSignEncode(b *testing.B) {
	asset := x402.Networks()[0].Assets[0]
	offer := must(x402.DecodeHeader(challengeV2)).Offer(0)
	key := must(x402.ParseKey(append(make([]byte, 31), 7)))
	b.ReportAllocs()
	for b.Loop() {
		s, err := key.Sign(someAuthorization.Digest(asset, 8453))
		if err != nil {
			b.Fatal(err)
		}
		p, err := offer.Payload(someAuthorization, s)
		if err != nil || p.Header() == "" {
			b.Fatal(err)
		}
	}
}
