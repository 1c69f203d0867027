package policy

// Door names the surface that a payment came through.
type Door string

// The doors.
const (
	DoorAPI       Door = "api"
	DoorProxy     Door = "proxy"
	DoorTransport Door = "transport"
	// DoorOperator is that of withdrawals: see package treasury.
	DoorOperator Door = "operator"
)

// Dials reports whether purser itself sends the requests of a door. On REST, the URL of a payment is the
// caller's word.
func (d Door) Dials() bool { return d == DoorProxy || d == DoorTransport }
