"""How numbers, dates, amounts, units and blessings are said in standard Persian, without stress."""

import pytest

from myxtts.text import persian
from myxtts.text.tokenizer import text_symbols

SPOKEN = """
۰ → sefr
۵ → pandʒ
۹ → noh
۱۱ → jɑzdah
۱۴ → tʃahɑrdah
۱۹ → nuzdah
۲۹ → bist va noh
۳۰ → si
۴۴ → tʃehel va tʃahɑr
۶۰ → ʃast
۷۸ → haftɑd va haʃt
۹۹ → navad va noh
۱۰۰ → sad
۱۰۹ → sad va noh
۳۴۵ → sisad va tʃehel va pandʒ
۴۰۰ → tʃahɑrsad
۹۰۰ → nohsad
۱۰۰۰ → hezɑr
۱۴۰۲ → hezɑr va tʃahɑrsad va do
۱۲٬۳۴۵ → davɑzdah hezɑr va sisad va tʃehel va pandʒ
1,000,000 → jek miljun
۲۵۰۰۰۰۰۰۰۰ → do miljɑrd va pɑnsad miljun
۳٫۱۴ → se momajjez tʃahɑrdah
۰٫۵ → sefr momajjez pandʒ
۲/۵ متر → do momajjez pandʒ metr
۱٫۵ میلیون → jek va nim miljun
-۹ → manfi noh
½ → nim
۱/۴ → jek tʃahɑrom
۲/۳ مردم → do sevvome mardom
۱ ۱/۲ → jek va nim
۵۰٪ → pandʒɑh darsad
۹م → nohom
۲۳ام → bist va sevvom
۳۰ام → siom
۴۰م → tʃehelom
۱۰۰م → sadom
۲۰مین → bistomin
۱۰-۱۲ نفر → dah tɑ davɑzdah nafar
۹ از ۱۰ → noh az dah
۱۴۰۲/۹/۹ → nohome ɑzare hezɑr va tʃahɑrsad va do
1402-05-03 → sevvome mordɑde hezɑr va tʃahɑrsad va do
2024/09/19 → nuzdahome septɑmbre do hezɑr va bist va tʃahɑr
۱۲ مرداد ۱۴۰۲ → davɑzdahome mordɑde hezɑr va tʃahɑrsad va do
۵ می ۲۰۲۰ → pandʒome meje do hezɑr va bist
۹ ژوئیه ۱۹۷۹ → nohome ʒuʔijeje hezɑr va nohsad va haftɑd va noh
ساعت ۹:۰۹ → sɑʔate noh va noh daqiqe
ساعت ۱۷:۳۰ → sɑʔate hefdah va si daqiqe
ساعت ۴:۰۰ → sɑʔate tʃahɑr
$5 → pandʒ dolɑr
$3.50 → se dolɑr va pandʒɑh sent
۲۰€ → bist juro
£9 → noh pond
۲۵٬۰۰۰ تومان → bist va pandʒ hezɑr tumɑn
۵۰۰۰ ریال → pandʒ hezɑr rijɑl
$2.5 میلیون → do va nim miljun dolɑr
۳۰ سنت → si sent
5 km → pandʒ kilometr
9 kg → noh kiloɡeram
5 g → pandʒ ɡeram
۵ گرم → pandʒ ɡeram
10 mm → dah milimetr
250 mg → devist va pandʒɑh miliɡeram
500 ml → pɑnsad mililitr
5GB → pandʒ ɡiɡɑbɑjt
2 TB → do terɑbɑjt
50 MW → pandʒɑh meɡɑvɑt
3 GHz → se ɡiɡɑhertz
۲۵ °C → bist va pandʒ daradʒeje sɑntiɡerɑd
98 °F → navad va haʃt daradʒeje fɑrenhɑjt
۶۰ km/h → ʃast kilometr bar sɑʔat
60 mph → ʃast mɑjl bar sɑʔat
۱۰ m² → dah metre morabbaʔ
متر² → metre morabbaʔ
5 cm³ → pandʒ sɑntimetre mokaʔʔab
09121234567 → sefr noh jek do jek do se tʃahɑr pandʒ ʃeʃ haft
021-12345679 → sefr do jek, jek do se tʃahɑr pandʒ ʃeʃ haft noh
#ایران → haʃtaɡe irɑn
a_b/c → eɪ biː siː
ali@example.com → ɑːli at ɛɡzampəl dɑt kɒm
امام علی (ع) → emɑm ali alejhessalɑm
پیامبر (ص) → pajɑmbar sallallɑho alejhe va ɑleh
حضرت زهرا (س) → hazrate zahrɑ salɑmollɑhe alejhɑ
امام خمینی (ره) → emɑme xomejni rahmatollɑhe alejh
امام زمان (عج) → emɑme zamɑn adʒdʒalallɑho taʔɑlɑ faradʒah
صلی الله علیه و آله → sallallɑho alejhe va ɑleh
۵۰۰ ق.م. بود → pɑnsad qabl az milɑd bud
ص. ۹ → safheje noh
ج. ۲ → dʒelde do
جنگ جهانی II → dʒanɡe dʒahɑnije dovvom
لویی XIV → luji tʃahɑrdahom
خوووووب → xub
۲ + ۳ = ۵ → do beʔalɑveje se mosɑvije pandʒ
۲۰‌ساله → bist sɑle
نسخه ۳.۵.۲ → nosxe se noqte pandʒ noqte do
۱/۳ → jek sevvom
۳/۴ راه → se tʃahɑrome rɑh
۱۳۵۷–۱۳۶۷ → hezɑr va sisad va pandʒɑh va haft tɑ hezɑr va sisad va ʃast va haft
۰۲۱-۸۸۹۹ → sefr do jek, haʃt haʃt noh noh
$0.99 → navad va noh sent
¥900 → nohsad jen
۹٪ → noh darsad
۹۹٫۹٪ → navad va noh momajjez noh darsad
ساعت ۰:۱۹ → sɑʔate sefr va nuzdah daqiqe
۹/۹/۱۳۹۹ → nohome ɑzare hezɑr va sisad va navad va noh
۳ ژوئن → sevvome ʒuʔan
۴ گیگاوات → tʃahɑr ɡiɡɑvɑt
9 cm² → noh sɑntimetre morabbaʔ
19 kW → nuzdah kilovɑt
۱۹ آذر → nuzdahome ɑzar
۲۹ تیر ۱۳۵۹ → bist va nohome tire hezɑr va sisad va pandʒɑh va noh
۹۴۹ → nohsad va tʃehel va noh
۴۹ سنت → tʃehel va noh sent
"""
# Words of the normalizer's tables.
TABLES = """
آبان → ɑbɑn
آذر → ɑzar
آندرلاین → ɑnderlɑjn
آوریل → ɑvril
ات → at
اردیبهشت → ordibeheʃt
اسفند → esfand
اسلش → eslaʃ
اوت → ut
اکتبر → oktobr
بعد از ظهر → baʔd az zohr
بعد از میلاد → baʔd az milɑd
بهمن → bahman
به‌علاوهِ → beʔalɑveje
ترابایت → terɑbɑjt
تریلیون → teriljun
تقسیم بر → taqsim bar
تیر → tir
ثانیه → sɑnije
جلدِ → dʒelde
جمهوریِ اسلامی → dʒomhurije eslɑmi
جمهوریِ اسلامیِ ایران → dʒomhurije eslɑmije irɑn
خرداد → xordɑd
خط تیره → xatte tire
دات → dɑt
درجه → daradʒe
درجهِ سانتی‌گراد → daradʒeje sɑntiɡerɑd
درجهِ فارنهایت → daradʒeje fɑrenhɑjt
درصد → darsad
دسامبر → desɑmbr
دقیقه → daqiqe
دلار → dolɑr
دی → dej
رجوع کنید → rodʒuʔ konid
رحمت الله علیه → rahmatollɑhe alejh
ساعت → sɑʔat
سانتی‌متر → sɑntimetr
سانتی‌مترِ مربع → sɑntimetre morabbaʔ
سانتی‌مترِ مکعب → sɑntimetre mokaʔʔab
سلام الله علیها → salɑmollɑhe alejhɑ
سنت → sonnat
سپتامبر → septɑmbr
شمارهِ → ʃomɑreje
شمسی → ʃamsi
شهریور → ʃahrivar
صفحاتِ → safahɑte
صفحهِ → safheje
صلی الله علیه و آله → sallallɑho alejhe va ɑleh
ضرب در → zarb dar
عجل الله تعالی فرجه → adʒdʒalallɑho taʔɑlɑ faradʒah
علیه السلام → alejhessalɑm
فروردین → farvardin
فوریه → fevrije
قبل از ظهر → qabl az zohr
قبل از میلاد → qabl az milɑd
قمری → qamari
لیتر → litr
لیر → lir
مارس → mɑrs
مایل بر ساعت → mɑjel bar sɑʔat
متر → metr
متر بر ثانیه → metr bar sɑnije
مترِ مربع → metre morabbaʔ
مترِ مکعب → metre mokaʔʔab
مثبت و منفی → mosbat va manfi
مرداد → mordɑd
مساویِ → mosɑvije
مه → meh
مهر → mehr
مگابایت → meɡɑbɑjt
مگاهرتز → meɡɑhertz
مگاوات → meɡɑvɑt
میلادی → milɑdi
میلیارد → miljɑrd
میلیون → miljun
میلی‌ثانیه → milisɑnije
میلی‌لیتر → mililitr
میلی‌متر → milimetr
میلی‌گرم → miliɡeram
نوامبر → novɑmbr
هجریِ شمسی → hedʒrije ʃamsi
هجریِ قمری → hedʒrije qamari
هرتز → hertz
هزار → hezɑr
و → va
وات → vɑt
ولت → volt
پنی → peni
پوند → pond
پی‌نوشت → pejneveʃt
چاپِ → tʃɑpe
ژانویه → ʒɑnvije
ژوئن → ʒuʔan
ژوئیه → ʒuʔije
کیلوبایت → kilobɑjt
کیلومتر → kilometr
کیلومتر بر ساعت → kilometr bar sɑʔat
کیلومترِ مربع → kilometre morabbaʔ
کیلوهرتز → kilohertz
کیلووات → kilovɑt
کیلوگرم → kiloɡeram
گرم → ɡarm
گیگابایت → ɡiɡɑbɑjt
گیگاهرتز → ɡiɡɑhertz
ین → jen
یورو → juro
"""
NUMBERS = """
صفر → sefr
یک → jek
دو → do
سه → se
چهار → tʃahɑr
پنج → pandʒ
شش → ʃeʃ
هفت → haft
هشت → haʃt
نُه → noh
ده → dah
یازده → jɑzdah
دوازده → davɑzdah
سیزده → sizdah
چهارده → tʃahɑrdah
پانزده → pɑnzdah
شانزده → ʃɑnzdah
هفده → hefdah
هجده → hedʒdah
نوزده → nuzdah
بیست → bist
سی → si
چهل → tʃehel
پنجاه → pandʒɑh
شصت → ʃast
هفتاد → haftɑd
هشتاد → haʃtɑd
نود → navad
صد → sad
دویست → devist
سیصد → sisad
چهارصد → tʃahɑrsad
پانصد → pɑnsad
ششصد → ʃeʃsad
هفتصد → haftsad
هشتصد → haʃtsad
نهصد → nohsad
هزار → hezɑr
یکم → jekom
دوم → dovvom
سوم → sevvom
چهارم → tʃahɑrom
پنجم → pandʒom
ششم → ʃeʃom
هفتم → haftom
هشتم → haʃtom
نهم → nohom
دهم → dahom
یازدهم → jɑzdahom
دوازدهم → davɑzdahom
سیزدهم → sizdahom
چهاردهم → tʃahɑrdahom
پانزدهم → pɑnzdahom
شانزدهم → ʃɑnzdahom
هفدهم → hefdahom
هجدهم → hedʒdahom
نوزدهم → nuzdahom
بیستم → bistom
سی‌ام → siom
چهلم → tʃehelom
پنجاهم → pandʒɑhom
شصتم → ʃastom
هفتادم → haftɑdom
هشتادم → haʃtɑdom
نودم → navadom
صدم → sadom
دویستم → devistom
سیصدم → sisadom
چهارصدم → tʃahɑrsadom
پانصدم → pɑnsadom
ششصدم → ʃeʃsadom
هفتصدم → haftsadom
هشتصدم → haʃtsadom
نهصدم → nohsadom
هزارم → hezɑrom
"""


def read(table):
    return [tuple(line.split(" → ")) for line in table.strip().split("\n")]


def said(text):
    return "".join(symbol.strip("ˈˌ") for symbol in text_symbols(text, "fa", "phonemes"))


@pytest.mark.parametrize(("written", "spoken"), read(SPOKEN) + read(TABLES) + read(NUMBERS))
def test_persian_as_it_is_spoken(written, spoken):
    assert said(written) == spoken


def test_every_word_of_the_tables_is_listed():
    tables = (
        persian.UNITS,
        persian.CURRENCIES,
        persian.HUNDREDTHS,
        persian.BLESSINGS,
        persian.DOTTED_ABBREVIATIONS,
        persian.BEFORE_NUMBER,
        persian.AFTER_YEAR,
        persian.ADDRESS_NAMES,
        persian.SYMBOLS,
    )
    words = {word for table in tables for word in table.values()}
    words |= {*persian.SOLAR_MONTHS, *persian.GREGORIAN_MONTHS, *persian.MAGNITUDES.split("|")}
    assert words <= dict(read(TABLES)).keys()
