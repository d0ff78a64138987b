"""What English text becomes before it is phonemised."""

import pytest

from myxtts.text.english import normalise_english

NUMBERS = [
    ("I have 5 apples.", "I have five apples."),
    ("0 is nothing", "zero is nothing"),
    ("42 people came", "forty two people came"),
    ("105 pages", "one hundred and five pages"),
    ("1,234 pears", "one thousand two hundred and thirty four pears"),
    ("2,000,000 stars", "two million stars"),
    ("Pi is 3.14.", "Pi is three point one four."),
    ("only .5 left", "only point five left"),
    ("1,234.05 in all", "one thousand two hundred and thirty four point zero five in all"),
    ("It was -5 outside", "It was minus five outside"),
    ("It was −12.5 outside", "It was minus twelve point five outside"),
    ("pages 10-12", "pages ten to twelve"),
    ("ages 10–12", "ages ten to twelve"),
    ("they won 3-2", "they won three to two"),
    ("5 - 3 = 2", "five minus three equals two"),
    ("1, 2 and 3", "one, two and three"),
    ("Room 007", "Room zero zero seven"),
    ("Python 3.11.2", "Python three dot eleven dot two"),
    ("COVID-19 and MP3", "COVID nineteen and MP three"),
    ("a 5-year-old", "a five year old"),
    ("a ratio of 3:1", "a ratio of three to one"),
    ("9876543210123456", (
        "nine eight seven six five four three two one zero one two three four five six"
    )),
]  # fmt: skip

YEARS = [
    ("in 1984", "in nineteen eighty four"),
    ("Since 1905, nothing", "Since nineteen oh five, nothing"),
    ("in 1900", "in nineteen hundred"),
    ("in 2005", "in two thousand and five"),
    ("by 2021", "by twenty twenty one"),
    ("between 1990 and 1995", "between nineteen ninety and nineteen ninety five"),
    ("the war (1939-1945)", "the war, nineteen thirty nine to nineteen forty five"),
    ("AD 1066", "AD ten sixty six"),
    ("the 1980s", "the nineteen eighties"),
    ("the '90s", "the nineties"),
    ("1500 people", "one thousand five hundred people"),
    ("in 1,984 cases", "in one thousand nine hundred and eighty four cases"),
]

ORDINALS_AND_FRACTIONS = [
    ("the 1st", "the first"),
    ("his 22nd birthday", "his twenty second birthday"),
    ("the 103rd", "the one hundred and third"),
    ("1/2 of it", "one half of it"),
    ("3/4 of it", "three quarters of it"),
    ("2/3 of it", "two thirds of it"),
    ("2 1/2 cups", "two and a half cups"),
    ("2½ cups", "two and a half cups"),
    ("a 50/50 chance", "a fifty fifty chance"),
    ("open 24/7", "open twenty four seven"),
]

MONEY = [
    ("$5", "five dollars"),
    ("$1", "one dollar"),
    ("$3.50", "three dollars and fifty cents"),
    ("$1.01", "one dollar and one cent"),
    ("$0.99", "ninety nine cents"),
    ("£1,200", "one thousand two hundred pounds"),
    ("€2m", "two million euros"),
    ("$2 million", "two million dollars"),
    ("$1.5bn", "one point five billion dollars"),
    ("-$5", "minus five dollars"),
    ("$5-10", "five to ten dollars"),
    ("5 €", "five euros"),
    ("$20/hour", "twenty dollars per hour"),
]

DATES_AND_TIMES = [
    ("March 3, 2021", "March third, twenty twenty one"),
    ("on 3 March 2021", "on the third of March, twenty twenty one"),
    ("on the 3rd of March.", "on the third of March."),
    ("2021-03-03", "March third, twenty twenty one"),
    ("3/4/2021", "March fourth, twenty twenty one"),
    ("Jan. 5", "January fifth"),
    ("in May 2020", "in May twenty twenty"),
    ("March 10-12", "March tenth to twelfth"),
    ("March 3,000 people", "March three thousand people"),
    ("at 5:30 pm", "at five thirty PM"),
    ("at 5 p.m. He left.", "at five PM. He left."),
    ("at 5 p.m. sharp", "at five PM sharp"),
    ("at 17:05", "at seventeen oh five"),
    ("at 5:00", "at five o'clock"),
    ("at 5 o'clock", "at five o'clock"),
    ("9am-5pm", "nine AM to five PM"),
]

ABBREVIATIONS = [
    ("Mr. Smith and Mrs. Jones", "Mister Smith and Missus Jones"),
    ("Dr Brown met Ms. Green", "Doctor Brown met Miz Green"),
    ("Prof. Lee", "Professor Lee"),
    ("St. John", "Saint John"),
    ("I live on Main St. It is nice.", "I live on Main Street. It is nice."),
    ("cats, dogs, etc.", "cats, dogs, et cetera."),
    ("cats etc. are fine", "cats et cetera are fine"),
    ("fruit, e.g. apples", "fruit, for example apples"),
    ("now, i.e., today", "now, that is, today"),
    ("cats vs. dogs", "cats versus dogs"),
    ("No. 5", "number five"),
    ("I said no. 5 left.", "I said no. five left."),
    ("Martin Luther King Jr. spoke", "Martin Luther King Junior spoke"),
    ("approx. 5", "approximately five"),
    ("the U.S. Army", "the US Army"),
    ("NASA and the BBC", "NASA and the BBC"),
    ("J. K. Rowling", "J K Rowling"),
]

UNITS = [
    ("5 km", "five kilometers"),
    ("1 km", "one kilometer"),
    ("10kg", "ten kilograms"),
    ("3 cm", "three centimeters"),
    ("60 mph", "sixty miles per hour"),
    ("25 °C", "twenty five degrees Celsius"),
    ("-5°C", "minus five degrees Celsius"),
    ("5 GB", "five gigabytes"),
    ("2 hrs", "two hours"),
    ("6 ft. tall", "six feet tall"),
    ("10 m²", "ten square meters"),
    ("50%", "fifty percent"),
    ("5-10%", "five to ten percent"),
]

SYMBOLS_AND_PUNCTUATION = [
    ("salt & pepper", "salt and pepper"),
    ("1 + 1 = 2", "one plus one equals two"),
    ("we're #1", "we're number one"),
    ("#winter", "hashtag winter"),
    ("a 45° turn", "a forty five degrees turn"),
    ("x² + 1", "x squared plus one"),
    ("“Hello,” she said.", "Hello, she said."),
    ("it’s 'fine'", "it's fine"),
    ("yes — no", "yes, no"),
    ("He (the boss) left", "He, the boss, left"),
    ("well... maybe", "well, maybe"),
    ("What?!  Really!!", "What? Really!"),
    ("a well-known fact", "a well known fact"),
    ("café naïve", "café naïve"),
    ("one\n\ttwo\u200e", "one two"),
    ("\u202eabc 😀", "abc"),
]

ROMAN_NUMERALS = [
    ("Chapter IV", "Chapter four"),
    ("Henry VIII", "Henry the eighth"),
    ("World War II", "World War two"),
    ("King George I", "King George the first"),
    ("Mary I think so", "Mary I think so"),
    ("Section C", "Section C"),
    ("IV drip", "IV drip"),
]

ADDRESSES_AND_TELEPHONES = [
    ("see www.example.com.", "see www dot example dot com."),
    ("https://example.org/a-b?x=1", "example dot org slash a dash b"),
    ("john.doe@example.com", "john dot doe at example dot com"),
    ("call 555-1234", "call five five five, one two three four"),
    ("5551234567", "five five five one two three four five six seven"),
    ("(555) 123-4567", "five five five, one two three, four five six seven"),
    ("+1 555 123 4567", "plus one, five five five, one two three, four five six seven"),
]

CASES = [
    *NUMBERS, *YEARS, *ORDINALS_AND_FRACTIONS, *MONEY, *DATES_AND_TIMES, *ABBREVIATIONS, *UNITS,
    *SYMBOLS_AND_PUNCTUATION, *ROMAN_NUMERALS, *ADDRESSES_AND_TELEPHONES,
]  # fmt: skip


@pytest.mark.parametrize(("written", "spoken"), CASES)
def test_written_english_becomes_spoken_english(written: str, spoken: str) -> None:
    assert normalise_english(written) == spoken


@pytest.mark.parametrize("spoken", [spoken for _, spoken in CASES])
def test_spoken_english_stays_as_it_is(spoken: str) -> None:
    assert normalise_english(spoken) == spoken
