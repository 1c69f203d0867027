package dashboard

import (
	"strconv"
	"strings"

	"rsc.io/qr"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// code is a QR code as one SVG path. Size is its edge in modules, with the quiet zone.
type code struct {
	Size int
	Path string
}

const quietZone = 4 // modules of light around a code (ISO/IEC 18004 §9.1)

// transferRequest returns the URL that asks wallet apps for a transfer of a network's token (EIP-681).
func transferRequest(n x402.Network, to x402.Address, amount money.Amount) string {
	return "ethereum:" + n.Assets[0].Address.String() + "@" + strconv.FormatUint(n.ChainID, 10) + "/transfer?address=" + to.String() + "&uint256=" + amount.String()
}

// qrCode draws text.
func qrCode(text string) *code {
	c, err := qr.Encode(text, qr.M)
	if err != nil {
		return nil
	}
	var path strings.Builder
	for y := range c.Size {
		for x := 0; x < c.Size; x++ {
			from := x
			for x < c.Size && c.Black(x, y) {
				x++
			}
			if n := x - from; n > 0 {
				w := strconv.Itoa(n)
				path.WriteString("M" + strconv.Itoa(from+quietZone) + " " + strconv.Itoa(y+quietZone) + "h" + w + "v1h-" + w + "z")
			}
		}
	}
	return &code{Size: c.Size + 2*quietZone, Path: path.String()}
}
