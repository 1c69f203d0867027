// Package docs runs what README.md, docs/*.md and the READMEs of the client libraries tell people to type.
//
// Each block of shell commands there has a comment in front of it, invisible to readers, that says what is to be done with
// it. A block without one fails the test, so that nothing is left out in silence:
//
//	<!-- run: sandbox -->        against the purser of a running sandbox: $KEY is its key, 8402 and its neighbours its ports
//	<!-- run: checkout -->       as sandbox, in a folder beside a fresh checkout, which is called purser and where nothing
//	                             is built or installed yet. It may fetch from package registries
//	<!-- run: alone -->          in a folder of the page's own, where no purser runs yet; 9402 and its neighbours are a
//	                             sandbox's ports, 8402 and its neighbours those of the page's own purser
//	<!-- run: server -->         as alone; its last command goes on running until the page ends
//	<!-- not run: why -->        nothing
//
// More may follow, after semicolons:
//
//	says: TEXT                   the commands print this
//	except: TEXT, because WHY    lines with this text are not run
//
// Placeholders are filled in: 0198… and 0199… are the id of the sandbox's key, 0x… is the address that was printed last,
// and <value of the PAYMENT-REQUIRED header> is a seller's challenge.
package docs
